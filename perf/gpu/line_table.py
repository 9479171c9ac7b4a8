"""The line table of a cubin: DWARF 2 with ptxas's own opcode for code that was inlined."""
import os
import struct

INLINED_CALL = 0x90  # an extended opcode: the number of the call's row, counted from 1, 0 if there is none; then the function's name


def section_of(image, wanted):
    """The bytes of a section of an ELF image; none if it has no such section."""
    (at,), (size, count, names) = struct.unpack_from("<Q", image, 0x28), struct.unpack_from("<3H", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, at + i * size) for i in range(count)]
    name_of = lambda header: image[headers[names][4] + header[0]:].split(b"\0", 1)[0].decode()
    return next((image[offset:offset + length] for header in headers for *_, offset, length in [header] if name_of(header) == wanted), b"")


class Bytes:
    """A reader of DWARF's numbers and texts."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def number(self, signed=False):
        value, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            byte = self.data[self.at]
            value, shift, self.at = value | (byte & 0x7f) << shift, shift + 7, self.at + 1
        return value - (1 << shift) if signed and byte & 0x40 else value

    def fixed(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        end = self.data.index(b"\0", self.at)
        found, self.at = self.data[self.at:end].decode(), end + 1
        return found


def line_rows(table):
    """The rows (address, file, line, row of the call that it was inlined at) of each sequence of a .debug_line section of DWARF 2."""
    read, sequences = Bytes(table, 0), []
    while read.at < len(table):
        end = read.fixed("I") + read.at
        read.fixed("H"), read.fixed("I")
        least, _, base, span, first_special = (read.fixed(form) for form in "BBbBB")
        operands = [read.fixed("B") for _ in range(first_special - 1)]
        folders, files = [""], [""]
        while folder := read.text():
            folders.append(folder)
        while name := read.text():
            files.append(os.path.join(folders[read.number()], name))
            read.number(), read.number()
        address, file, line, call, rows = 0, 1, 1, 0, []
        while read.at < end:
            code = read.fixed("B")
            if code >= first_special:
                address, line = address + (code - first_special) // span * least, line + base + (code - first_special) % span
            elif code == 0:
                after = read.number() + read.at
                extended = read.fixed("B")
                if extended == 1:
                    sequences.append(rows)
                    address, file, line, call, rows = 0, 1, 1, 0, []
                elif extended == 2:
                    address = int.from_bytes(table[read.at:after], "little")
                elif extended == INLINED_CALL:
                    call = read.number()
                read.at = after
            elif code == 2:
                address += read.number() * least
            elif code == 3:
                line += read.number(signed=True)
            elif code == 4:
                file = read.number()
            elif code == 8:
                address += (255 - first_special) // span * least
            elif code == 9:
                address += read.fixed("H")
            elif code != 1:
                for _ in range(operands[code - 1]):
                    read.number()
            if code == 1 or code >= first_special:
                rows.append((address, files[file], line, call))
    return sequences
