package browser

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"slices"
	"testing"
)

// small makes a picture of a page a third of its size: it has few colours.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	// Five bits of each colour, and of those the 256 that are used most.
	coarse := func(c color.Color) [3]uint8 {
		r, g, b, _ := c.RGBA()
		part := func(v uint32) uint8 { return uint8(min(255, (v>>8+4)/8*8)) }
		return [3]uint8{part(r), part(g), part(b)}
	}
	count, exact := map[[3]uint8]int{}, map[[3]uint8]map[color.Color]int{}
	bounds := full.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := full.At(x, y)
			k := coarse(c)
			count[k]++
			if exact[k] == nil {
				exact[k] = map[color.Color]int{}
			}
			exact[k][c]++
		}
	}
	var keys [][3]uint8
	for k := range count {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [3]uint8) int { return count[b] - count[a] })
	var palette color.Palette
	for _, k := range keys[:min(256, len(keys))] {
		var best color.Color
		for c, n := range exact[k] {
			if best == nil || n > exact[k][best] {
				best = c
			}
		}
		palette = append(palette, best)
	}
	index := map[[3]uint8]uint8{}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			k := coarse(full.At(x, y))
			i, known := index[k]
			if !known {
				i = uint8(palette.Index(color.RGBA{k[0], k[1], k[2], 255}))
				index[k] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var data bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&data, out); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}
