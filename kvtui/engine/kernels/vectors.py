"""Vectors of fp32 as numba values: what a compiler would have to guess is said outright.

Each operation is one or a few LLVM instructions. Widths are literals, so the same source compiles
for 256 and 512 bits; LLVM splits what the processor does not have. Imported only where numba is.
"""

from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import intrinsic, models, register_model

_F32: Final = ir.FloatType()
_I32: Final = ir.IntType(32)

_LOG2_E: Final = 1.4426950408889634
_LEAST_EXPONENT: Final = -126.0
"""Below it the bits of an exponent would run out; 2**-126 is nothing beside a sum of at least 1."""
_EXP2: Final = (
    1.5403530393381608e-4,
    1.3333558146428443e-3,
    9.618129107628477e-3,
    5.550410866482158e-2,
    2.402265069591007e-1,
    6.931471805599453e-1,
    1.0,
)
"""ln(2)^n / n! from n = 6 down: 2**f for |f| <= 1/2 to 1.2e-7, an ulp of fp32."""


class Vector(types.Type):
    """``width`` lanes of fp32."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"f32x{width}")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, ir.VectorType(_F32, vector.width))


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Address of the element of a flat ``array``; no bounds, no wrap-around."""
    data = cgutils.create_struct_proxy(kind)(context, builder, array).data
    return builder.gep(data, [index])


def _splatted(builder: Any, value: Any, width: int) -> Any:
    one = builder.insert_element(
        ir.Constant(ir.VectorType(value.type, width), ir.Undefined), value, ir.Constant(_I32, 0)
    )
    return builder.shuffle_vector(one, one, _mask([0] * width))


def _mask(lanes: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_I32, len(lanes)), [ir.Constant(_I32, one) for one in lanes])


def _constant(value: float, width: int) -> Any:
    return ir.Constant(ir.VectorType(_F32, width), [ir.Constant(_F32, value)] * width)


def _call(builder: Any, name: str, arguments: list[Any], result: Any = None) -> Any:
    """An LLVM intrinsic, such as ``fma``, of the first argument's type."""
    kind = arguments[0].type
    suffix = f".v{kind.count}f32" if isinstance(kind, ir.VectorType) else ".f32"
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(result or kind, [one.type for one in arguments]),
        f"llvm.{name}{suffix}",
    )
    return builder.call(function, arguments)


@intrinsic(prefer_literal=True)
def splat(typing: Any, value: Any, lanes_of: Any) -> Any:
    """One scalar in every lane."""
    lanes = lanes_of.count

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scalar = context.cast(builder, arguments[0], signature.args[0], types.float32)
        return _splatted(builder, scalar, lanes)

    return Vector(lanes)(value, lanes_of), code


@intrinsic(prefer_literal=True)
def load(typing: Any, array: Any, index: Any, lanes_of: Any) -> Any:
    """Lanes from ``array[index]`` on, as fp32: fp32 itself, bf16 given as uint16, or int8."""
    lanes = lanes_of.count
    element = array.dtype

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        stored = ir.VectorType(context.get_data_type(element), lanes)
        found = builder.load(builder.bitcast(address, stored.as_pointer()))
        found.align = element.bitwidth // 8
        wide = ir.VectorType(_F32, lanes)
        if element == types.float32:
            return found
        if element == types.int8:
            return builder.sitofp(found, wide)
        words = ir.VectorType(_I32, lanes)
        sixteen = ir.Constant(words, [ir.Constant(_I32, 16)] * lanes)
        return builder.bitcast(builder.shl(builder.zext(found, words), sixteen), wide)

    return Vector(lanes)(array, types.intp, lanes_of), code


@intrinsic(prefer_literal=True)
def load_repeated(typing: Any, array: Any, index: Any, lanes_of: Any, times: Any) -> Any:
    """A ``times``-th as many values from ``array[index]`` on, each in ``times`` lanes."""
    lanes, period = lanes_of.count, times.literal_value

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        stored = ir.VectorType(_F32, lanes // period)
        found = builder.load(builder.bitcast(address, stored.as_pointer()))
        found.align = 4
        return builder.shuffle_vector(
            found, found, _mask([lane // period for lane in range(lanes)])
        )

    return Vector(lanes)(array, types.intp, lanes_of, times), code


@intrinsic(prefer_literal=True)
def store(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write all lanes from ``array[index]`` on."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        where = builder.bitcast(address, arguments[2].type.as_pointer())
        builder.store(arguments[2], where).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), code


def _binary(name: str) -> Any:
    def typed(typing: Any, a: Any, b: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if name == "maxnum":
                return _call(builder, name, list(arguments))
            return getattr(builder, name)(*arguments)

        return a(a, b), code

    return intrinsic(typed)


plus = _binary("fadd")
minus = _binary("fsub")
times = _binary("fmul")
larger = _binary("maxnum")


@intrinsic(prefer_literal=True)
def fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "fma", list(arguments))

    return a(a, b, c), code


@intrinsic(prefer_literal=True)
def spread(typing: Any, vector: Any, period: Any, summed: Any) -> Any:
    """In each lane the sum (or, not ``summed``, the maximum) of all lanes ``period`` apart."""
    step, lanes, add = period.literal_value, vector.width, summed.literal_value

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found, apart = arguments[0], lanes // 2
        while apart >= step:
            order = _mask([(one + apart) % lanes for one in range(lanes)])
            turned = builder.shuffle_vector(found, found, order)
            if add:
                found = builder.fadd(found, turned)
            else:
                found = _call(builder, "maxnum", [found, turned])
            apart //= 2
        return found

    return vector(vector, period, summed), code


@intrinsic(prefer_literal=True)
def any_greater(typing: Any, a: Any, b: Any) -> Any:
    """Whether some lane of ``a`` exceeds that of ``b``."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = builder.fcmp_ordered(">", *arguments)
        word = ir.IntType(a.width)
        return builder.icmp_unsigned("!=", builder.bitcast(lanes, word), ir.Constant(word, 0))

    return types.boolean(a, b), code


@intrinsic(prefer_literal=True)
def exponential(typing: Any, vector: Any) -> Any:
    """e to the power of each lane, for lanes of at most 0."""
    lanes = vector.width

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        power = builder.fmul(arguments[0], _constant(_LOG2_E, lanes))
        power = _call(builder, "maxnum", [power, _constant(_LEAST_EXPONENT, lanes)])
        whole = _call(builder, "rint", [power])
        part = builder.fsub(power, whole)
        found = _constant(_EXP2[0], lanes)
        for factor in _EXP2[1:]:
            found = _call(builder, "fma", [found, part, _constant(factor, lanes)])
        words = ir.VectorType(_I32, lanes)
        exponent = builder.fptosi(whole, words)
        shift = ir.Constant(words, [ir.Constant(_I32, 23)] * lanes)
        bits = builder.add(builder.bitcast(found, words), builder.shl(exponent, shift))
        return builder.bitcast(bits, arguments[0].type)

    return vector(vector), code


@intrinsic(prefer_literal=True)
def eight_sums(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """The sums over the lanes of eight vectors, as one vector of eight lanes, in order."""
    lanes = a.width

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = list(arguments)
        # Halve until eight lanes are left, then three rounds that pair rows and halve each.
        width = lanes
        while width > 8:
            half = width // 2
            low, high = _mask(list(range(half))), _mask(list(range(half, width)))
            rows = [
                builder.fadd(
                    builder.shuffle_vector(row, row, low), builder.shuffle_vector(row, row, high)
                )
                for row in rows
            ]
            width = half
        for size in (4, 2, 1):
            rows = [
                _paired(builder, rows[2 * one], rows[2 * one + 1], size)
                for one in range(len(rows) // 2)
            ]
        order = _mask(_final_order())
        return builder.shuffle_vector(rows[0], rows[0], order)

    return Vector(8)(a, b, c, d, e, f, g, h), code


def _paired(builder: Any, a: Any, b: Any, size: int) -> Any:
    """Lanes ``size`` apart added: of ``a`` where bit ``size`` of the lane is 0, else of ``b``."""
    first = [one if not one & size else 8 + one - size for one in range(8)]
    second = [one + size if not one & size else 8 + one for one in range(8)]
    return builder.fadd(
        builder.shuffle_vector(a, b, _mask(first)), builder.shuffle_vector(a, b, _mask(second))
    )


def _final_order() -> list[int]:
    """Row ``r`` ends in the lane whose bits are those of ``r`` reversed."""
    return [int(f"{row:03b}"[::-1], 2) for row in range(8)]


def _prefetch(locality: int) -> Any:
    def typed(typing: Any, array: Any, index: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
            pointer = builder.bitcast(address, ir.IntType(8).as_pointer())
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32]),
                "llvm.prefetch.p0",
            )
            hints = [ir.Constant(_I32, value) for value in (0, locality, 1)]
            builder.call(function, [pointer, *hints])
            return context.get_dummy_value()

        return types.void(array, types.intp), code

    return intrinsic(typed)


prefetch_near = _prefetch(3)
"""Into every level (x86: T0)."""
prefetch_second = _prefetch(2)
"""Into the second level (x86: T1)."""
prefetch_once = _prefetch(0)
"""Around the caches where that exists (x86: NTA)."""
