"""Makes the specification of Ethereum in Python quicker, and its results the same.

It replaces what the specification takes from libraries: numbers, frozen records, RLP, Keccak and recovery of public
keys. Each replacement treats the usual types itself and gives all others to the original. What a fork says is not
touched: instructions, prices, tries, states, blocks. Only the way from a byte of code to its instruction is a table,
and nobody is told of steps while nobody listens. Import it before any fork.
"""

import dataclasses
import functools
import operator
import sys
from importlib import import_module

import ethereum_types.frozen
from ethereum_rlp import rlp
from ethereum_types import numeric
from ethereum_types.numeric import FixedUnsigned, Uint, Unsigned

# Hashes that are remembered, and the longest input of one of them.
HASHES = 1 << 16
HASH_INPUT_MAX = 1024
# Operators of two numbers of the same type. Their results may be out of range.
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
# Operators whose results are as small as one of the numbers.
NARROW_OPERATORS = {"and": "&", "or": "|", "xor": "^"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def method(text, **names):
    """The function that a text defines."""
    exec(text, names)
    return names["run"]


def quicken_numbers(kind):
    """Gives a type of numbers methods that make results of the type at once, without the checks of its parents."""
    limit = kind.MAX_VALUE._number if issubclass(kind, FixedUnsigned) else None
    names = {"kind": kind, "new": object.__new__}
    bounds = "number < 0" if limit is None else f"not 0 <= number <= {limit}"
    check = f"    if {bounds}:\n        raise OverflowError\n"
    result = "    made = new(kind)\n    made._number = number\n    return made\n"

    def replace(name, text):
        for prefix in ["", "i"]:
            original = getattr(kind, f"__{prefix}{name}__", None)
            if original is None:
                continue
            head = "def run(self, right):\n    if type(right) is not kind:\n        return original(self, right)\n"
            setattr(kind, f"__{prefix}{name}__", method(head + text, original=original, **names))

    for name, sign in OPERATORS.items():
        replace(name, f"    number = self._number {sign} right._number\n{check}{result}")
    for name, sign in NARROW_OPERATORS.items():
        replace(name, f"    number = self._number {sign} right._number\n{result}")
    for name, sign in COMPARISONS.items():
        text = f"    return self._number {sign} right._number\n"
        head = "def run(self, right):\n    if type(right) is not kind:\n        return original(self, right)\n"
        original = getattr(kind, f"__{name}__")
        setattr(kind, f"__{name}__", method(head + text, original=original, **names))
    head = "def run(self, value):\n    number = value if type(value) is int else int(value)\n"
    kind.__init__ = method(f"{head}{check}    self._number = number\n")
    if limit is not None:
        original = kind.from_be_bytes.__func__
        text = f"""def run(cls, buffer):
    if cls is not kind or len(buffer) > {(limit.bit_length() + 7) // 8}:
        return original(cls, buffer)
    number = from_bytes(buffer, "big")
{check}{result}"""
        kind.from_be_bytes = classmethod(method(text, original=original, from_bytes=int.from_bytes, **names))


def equal(self, other, original=Unsigned.__eq__):
    kind = type(other)
    if kind is int:
        return self._number == other
    if isinstance(other, Unsigned):
        return self._number == other._number
    return original(self, other)


def as_int(self):
    return self._number


def is_not_zero(self):
    return self._number != 0


def quicken_all_numbers():
    kinds = [kind for kind in vars(numeric).values() if isinstance(kind, type) and issubclass(kind, Unsigned)]
    Unsigned.__eq__ = equal
    Unsigned.__int__ = Unsigned.__index__ = as_int
    Unsigned.__bool__ = is_not_zero
    for kind in kinds:
        if kind not in (Unsigned, FixedUnsigned):
            quicken_numbers(kind)


def modify(record, change):
    """A frozen copy of a record, after a change."""
    kind = type(record)
    made = object.__new__(kind)
    assign = object.__setattr__
    assign(made, "_frozen", False)
    for name in kind.__dataclass_fields__:
        assign(made, name, getattr(record, name))
    change(made)
    assign(made, "_frozen", True)
    return made


SHORT_HEADS = [bytes([0x80 + length]) for length in range(56)]


def encode_bytes(raw):
    length = len(raw)
    if length == 1 and raw[0] < 0x80:
        return bytes(raw)
    if length < 56:
        return SHORT_HEADS[length] + raw
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((0xB7 + len(size),)) + size + raw


def encode(item, original=rlp.encode):
    """RLP of a value."""
    if isinstance(item, (bytes, bytearray)):
        return encode_bytes(item)
    if isinstance(item, (list, tuple)):
        items = b"".join([encode_bytes(one) if type(one) is bytes else encode(one) for one in item])
        length = len(items)
        if length < 56:
            return bytes((0xC0 + length,)) + items
        size = length.to_bytes((length.bit_length() + 7) // 8, "big")
        return bytes((0xF7 + len(size),)) + size + items
    if isinstance(item, Unsigned):
        return encode_bytes(item.to_be_bytes())
    if dataclasses.is_dataclass(item):
        return encode([getattr(item, name) for name in item.__dataclass_fields__])
    return original(item)


def quicken():
    """Replaces the functions."""
    assert not any(name.startswith("ethereum.forks.") for name in sys.modules), "a fork was imported before"
    quicken_all_numbers()
    ethereum_types.frozen.modify = modify
    rlp.encode = encode
    # These modules take functions of the ones above.
    from ethereum.crypto import blake2, elliptic_curve, hash

    keccak256 = hash.keccak256
    remembered = functools.lru_cache(HASHES)(keccak256)

    def quick_keccak256(buffer):
        return remembered(bytes(buffer)) if len(buffer) <= HASH_INPUT_MAX else keccak256(buffer)

    hash.keccak256 = quick_keccak256
    lengths = [Uint(length) for length in range(1 << 12)]

    def ulen(items):
        length = len(items)
        return lengths[length] if length < len(lengths) else Uint(length)

    numeric.ulen = ulen
    from ethereum.utils import numeric as numbers

    def ceil32(number, original=numbers.ceil32):
        return Uint(-(-number._number // 32) * 32) if type(number) is Uint else original(number)

    numbers.ceil32 = ceil32
    elliptic_curve.secp256k1_recover = functools.lru_cache(HASHES)(elliptic_curve.secp256k1_recover)
    # Numbers that are computed again in each step of BLAKE2.
    for name in ["max_word", "w_R1", "w_R2", "w_R3", "w_R4"]:
        setattr(blake2.Blake2b, name, getattr(blake2.Blake2b(), name))


class Instructions:
    """The enumeration of a fork's instructions, by a table."""

    def __init__(self, instructions):
        self.table = {one.value: one for one in instructions}
        self.STOP = instructions.STOP

    def __call__(self, byte):
        if byte not in self.table:
            raise ValueError(byte)
        return self.table[byte]


class Steps:
    """The loop over the instructions of a fork. It tells a tracer of each step only while somebody listens."""

    NAMES = ["evm_trace", "OpStart", "OpEnd", "GasAndRefund"]

    def __init__(self, fork):
        interpreter, gas, instructions, runtime = (
            import_module(f"ethereum.forks.{fork}.vm.{name}")
            for name in ["interpreter", "gas", "instructions", "runtime"]
        )
        # The same contracts are called again and again.
        interpreter.get_valid_jump_destinations = functools.lru_cache(256)(runtime.get_valid_jump_destinations)
        implementations = instructions.op_implementation
        known = list(implementations.items())
        instructions.Ops.__hash__ = object.__hash__
        implementations.clear()
        implementations.update(known)
        interpreter.Ops = Instructions(instructions.Ops)
        self.originals = [
            (module, name, getattr(module, name))
            for module in [interpreter, gas]
            for name in self.NAMES
            if hasattr(module, name)
        ]
        self.listen(False)

    def listen(self, is_traced):
        for module, name, original in self.originals:
            # Functions that do nothing and cost nothing: the events are thrown away.
            silent = operator.is_ if name == "evm_trace" else bool
            setattr(module, name, original if is_traced else silent)


@functools.cache
def steps(fork):
    """The loop of a fork, made quicker once."""
    return Steps(fork)


quicken()
