"""The model of the planted slow-downs where 98 MB cannot be carried: make_smol.py SKELETON OUT

SKELETON is SmolLM2-135M-Instruct.Q4_1.gguf with zeros for its quantised blocks: the header, vocabulary and norms are the real
ones. The blocks get random bits and one scale a tensor, normal halves, so that values are of the usual size (speed does not
depend on them). OUT must have the size of the real file.
"""
import os
import struct
import sys

F32, Q4_1, Q8_0 = 0, 3, 8
BLOCK = {Q4_1: (32, 20), Q8_0: (32, 34)}
SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, kind):
        (value,) = struct.unpack_from("<" + kind, self.data, self.at)
        self.at += struct.calcsize("<" + kind)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        return self.number(SCALAR[kind])


def tensors(data):
    """(name, values, values of a row, type, place) of every tensor."""
    read = Reader(data)
    assert read.number("I") == 0x46554747
    read.number("I")
    number, keys, align = read.number("Q"), read.number("Q"), 32
    for _ in range(keys):
        name, kind = read.text(), read.number("I")
        value = read.value(kind)
        align = value if name == "general.alignment" else align
    table = []
    for _ in range(number):
        name = read.text()
        sizes = [read.number("Q") for _ in range(read.number("I"))]
        kind, offset = read.number("I"), read.number("Q")
        values = 1
        for size in sizes:
            values *= size
        table.append((name, values, sizes[0], kind, offset))
    begin = (read.at + align - 1) // align * align
    return [(name, values, row, kind, begin + offset) for name, values, row, kind, offset in table]


def fill(values, row, kind):
    elements, size = BLOCK[kind]
    count = values // elements
    blocks = bytearray(os.urandom(count * size))
    if kind == Q4_1:  # w = d q + m, q of 0 to 15
        scale = 0.7 / row**0.5 / 4.61
        head = struct.pack("<ee", scale, -7.5 * scale)
    else:
        head = struct.pack("<e", 0.1 / 73.9)
    for place, byte in enumerate(head):
        blocks[place::size] = bytes([byte]) * count
    return blocks


def main():
    skeleton, out = sys.argv[1:]
    data = bytearray(open(skeleton, "rb").read())
    for _, values, row, kind, place in tensors(bytes(data)):
        if kind != F32:
            blocks = fill(values, row, kind)
            data[place : place + len(blocks)] = blocks
    with open(out, "wb") as file:
        file.write(data)
    print(out, len(data))


if __name__ == "__main__":
    main()
