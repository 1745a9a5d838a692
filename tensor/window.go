package tensor

import "io"

// windowBytes is how much of a file is looked at at once: small enough that a
// window and its sums stay in a core's cache, large enough that a read costs
// nothing beside what is done with it. A multiple of every element's size.
const windowBytes = 128 << 10

// window is a stretch of a file's data, cut into segments of one tensor each.
// A window holds many small tensors or a part of a large one, so that reading
// costs one call per window however the model is cut up.
type window struct {
	offset, bytes int64 // from DataStart
	segments      []segment
}

// segment is the part of one tensor that lies in a window.
type segment struct {
	entry int // index into Layout.Entries
	dtype DType
	start int64 // element of the tensor that the segment begins with
	lo    int   // bytes [lo, hi) of the window
	hi    int
	at    int // of a float segment: index of its first element among the window's floats
	n     int // elements
}

// windows calls visit for each window of the layout in order. The window and
// its segments are valid during the call.
func (l *Layout) windows(visit func(w window) error) error { return l.windowsOf(windowBytes, visit) }

// windowsOf is windows for windows of at most limit bytes, a multiple of every
// element's size.
func (l *Layout) windowsOf(limit int64, visit func(w window) error) error {
	var w window
	floats := 0
	flush := func() error {
		err := visit(w)
		w = window{offset: w.offset + w.bytes, segments: w.segments[:0]}
		floats = 0
		return err
	}
	for i, e := range l.Entries {
		size := e.DType.Size()
		for start, left := int64(0), e.Elements(); left > 0; {
			n := min(left, (limit-w.bytes)/size)
			if n == 0 {
				if err := flush(); err != nil {
					return err
				}
				continue
			}
			s := segment{entry: i, dtype: e.DType, start: start, lo: int(w.bytes), hi: int(w.bytes + n*size), n: int(n)}
			if e.DType.IsFloat() {
				s.at = floats
				floats += s.n
			}
			w.segments = append(w.segments, s)
			w.bytes += n * size
			start, left = start+n, left-n
		}
	}
	if w.bytes == 0 {
		return nil
	}
	return flush()
}

// read fills buf with the window of the file that r reads and whose data
// starts at dataStart.
func (w window) read(buf []byte, r io.ReaderAt, dataStart int64) ([]byte, error) {
	buf = buf[:w.bytes]
	return buf, readFull(r, buf, dataStart+w.offset)
}

// floats returns how many elements of float types the window holds.
func (w window) floats() (n int) {
	for _, s := range w.segments {
		if s.dtype.IsFloat() {
			n = s.at + s.n
		}
	}
	return n
}

// extent returns the most bytes and the most floats that a window of at most
// limit bytes holds.
func (l *Layout) extent(limit int64) (bytes, floats int) {
	_ = l.windowsOf(limit, func(w window) error {
		bytes, floats = max(bytes, int(w.bytes)), max(floats, w.floats())
		return nil
	})
	return bytes, floats
}
