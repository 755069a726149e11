"""Where a model, a device or a workload comes from: config.json, presets, typed fields."""
