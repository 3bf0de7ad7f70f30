package sink

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A record of a segment is a header of headerSize bytes, then the event as JSON:
//
//	magic 4 | length 4 | sequence 8 | time 8 | checksum of the event 4 | checksum of the header so far 4
//
// The header's own checksum reports whether the length can be trusted: if it can, a damaged event is skipped exactly;
// if it cannot, the reader looks for the next magic. The first byte of magic is never part of JSON text, so an intact
// event is never mistaken for a header. Sequence numbers have no gaps when written: a gap when read is what was lost.
const headerSize = 32

const magic = "\xffPA1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// header describes one event in a segment.
type header struct {
	length uint32
	seq    uint64
	time   int64 // when it was spooled, in nanoseconds since 1970
	sum    uint32
}

func (h header) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, h.length)
	dst = binary.LittleEndian.AppendUint64(dst, h.seq)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.time))
	dst = binary.LittleEndian.AppendUint32(dst, h.sum)
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

// parseHeader reads a header from the beginning of b; false if there is none that can be trusted.
func parseHeader(b []byte) (header, bool) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic ||
		binary.LittleEndian.Uint32(b[headerSize-4:]) != checksum(b[:headerSize-4]) {
		return header{}, false
	}
	return header{
		length: binary.LittleEndian.Uint32(b[4:]),
		seq:    binary.LittleEndian.Uint64(b[8:]),
		time:   int64(binary.LittleEndian.Uint64(b[16:])),
		sum:    binary.LittleEndian.Uint32(b[24:]),
	}, true
}

// skipToHeader returns how far to skip in b to where a header may begin; len(b) less what could be the beginning of a
// magic if there is none.
func skipToHeader(b []byte) int {
	if i := bytes.Index(b, []byte(magic)); i >= 0 {
		return i
	}
	if i := bytes.LastIndexByte(b, magic[0]); i >= 0 && len(b)-i < len(magic) {
		return i
	}
	return len(b)
}
