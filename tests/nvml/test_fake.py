"""The fake stands for the real binding: same names, same arguments, same tree of errors."""

import inspect

import pytest

from tests.nvml import fake

pynvml = pytest.importorskip("pynvml")


@pytest.mark.parametrize("name", [one for one in fake.FUNCTIONS if "/" not in one])
def test_the_binding_has_every_function_the_fake_has(name: str) -> None:
    """What is faked exists in nvidia-ml-py, and takes the arguments that it is given here."""
    real = inspect.signature(getattr(pynvml, name))
    faked = list(inspect.signature(getattr(fake.FakeNvml(), name)).parameters.values())
    given = [None for one in faked if one.default is inspect.Parameter.empty]
    named = {one.name: None for one in faked if one.default is not inspect.Parameter.empty}
    real.bind(*given, **named)


@pytest.mark.parametrize("error", fake.ERRORS, ids=lambda error: str(error.__name__))
def test_the_binding_has_every_error_the_fake_has(error: type[Exception]) -> None:
    """Each error exists, and is or is not one of NVML's own as it is here."""
    real = getattr(pynvml, error.__name__)
    assert issubclass(real, pynvml.NVMLError) == issubclass(error, fake.NVMLError)


def test_the_binding_is_nvidias() -> None:
    """The marks by which NVIDIA's binding and memory v2 are known are there."""
    assert hasattr(pynvml, "_nvmlGetFunctionPointer")
    assert pynvml.nvmlMemory_v2 == fake.FakeNvml.nvmlMemory_v2
