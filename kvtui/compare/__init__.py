"""The same question under other attention kinds, formats, engines and models, side by side.

``compared`` is a pure function from scenarios to frozen rows, ``figure`` one to curves of bytes
over T; the dashboard and the command line show the same ones. Nothing here prints.
"""

from kvtui.compare.curves import Budget, Curve, Figure, figure
from kvtui.compare.kinds import KINDS
from kvtui.compare.rows import Comparison, Row, compared
from kvtui.compare.variants import Variant, standard_variants, variants

__all__ = [
    "KINDS",
    "Budget",
    "Comparison",
    "Curve",
    "Figure",
    "Row",
    "Variant",
    "compared",
    "figure",
    "standard_variants",
    "variants",
]
