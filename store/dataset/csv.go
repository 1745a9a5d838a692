package dataset

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

const csvOp = "dataset.csv"

// spool holds bytes that were read once and are needed again.
type spool interface {
	io.Writer
	io.ReaderAt
}

// readCSV reads comma-separated numbers: one sample a line, the last column its
// label, an optional header line. x is [n, columns-1] float32; y is [n] int64
// when every label is a whole number, else float32. It counts the NaNs and
// infinities of x.
//
// Memory: one line and the buffers; the numbers go to spools. Invalid, with
// the line: another count of columns, no number, a number beyond float32, a
// label that is not finite, no sample. Corrupt: a broken gzip stream.
func readCSV(ctx context.Context, r io.Reader, newSpool func() (spool, error)) (p pair, nonFinite int64, err error) {
	var out csvColumns
	if err := out.open(newSpool); err != nil {
		return pair{}, 0, err
	}
	limit := &lineLimit{r: skipBOM(r), left: maxLine}
	in := csv.NewReader(limit)
	in.ReuseRecord = true
	in.FieldsPerRecord = -1 // we say it better
	in.TrimLeadingSpace = true
	width, header := 0, false
	for first := true; ; first = false {
		limit.left = maxLine
		fields, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return pair{}, 0, csvFault(err)
		}
		line, _ := in.FieldPos(0)
		if first {
			if width = len(fields); width < 2 {
				return pair{}, 0, fault.New(csvOp, fault.Invalid, "line %d has one column: want numbers separated by commas, the last the label", line)
			}
			if header = isHeader(fields); header {
				continue
			}
		}
		if len(fields) != width {
			return pair{}, 0, fault.New(csvOp, fault.Invalid, "line %d has %d columns, those before it %d", line, len(fields), width)
		}
		if err := out.add(fields); err != nil {
			return pair{}, 0, fault.New(csvOp, fault.KindOf(err), "line %d, %w", line, err)
		}
		if out.n%1024 == 0 && ctx.Err() != nil {
			return pair{}, 0, fault.New(csvOp, fault.Unavailable, "stopped: %w", ctx.Err())
		}
	}
	if out.n == 0 && header {
		return pair{}, 0, fault.New(csvOp, fault.Invalid, "empty: a header and no samples")
	} else if out.n == 0 {
		return pair{}, 0, fault.New(csvOp, fault.Invalid, "empty: no samples")
	}
	p, err = out.close(int64(width) - 1)
	return p, out.nonFinite, err
}

// isHeader reports whether a first line names columns: its last field is a
// word, or no field is a number. A line of numbers with a gap is a broken
// sample, not a header.
func isHeader(fields []string) bool {
	isNumber := func(field string) bool {
		_, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		return !errors.Is(err, strconv.ErrSyntax)
	}
	last := fields[len(fields)-1]
	return strings.TrimSpace(last) != "" && !isNumber(last) || !slices.ContainsFunc(fields, isNumber)
}

// maxLine bounds the memory of a line, which may span several if it is quoted.
const maxLine = 64 << 20 // bytes

// lineLimit is a reader that refuses lines longer than maxLine. Whoever reads
// the lines sets left to that after each.
type lineLimit struct {
	r    io.Reader
	left int
}

func (l *lineLimit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fault.New(csvOp, fault.Invalid, "a line is longer than %d bytes", maxLine)
	}
	n, err := l.r.Read(p)
	l.left -= n
	return n, err
}

// csvColumns collects what is read. Labels are kept as both types until it is
// known that not all are whole numbers.
type csvColumns struct {
	x, whole, real spool
	xw, ww, rw     *bufio.Writer
	n, nonFinite   int64
	fractions      bool // some label is no whole number
}

func (c *csvColumns) open(newSpool func() (spool, error)) error {
	for _, s := range []struct {
		spool *spool
		w     **bufio.Writer
	}{{&c.x, &c.xw}, {&c.whole, &c.ww}, {&c.real, &c.rw}} {
		made, err := newSpool()
		if err != nil {
			return err
		}
		*s.spool, *s.w = made, bufio.NewWriterSize(made, 64<<10)
	}
	return nil
}

// add takes one line. bufio's writers keep the first error for close.
func (c *csvColumns) add(fields []string) error {
	for i, field := range fields[:len(fields)-1] {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
		if err != nil {
			return columnFault(i, field, err)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			c.nonFinite++
		}
		_, _ = c.xw.Write(binary.LittleEndian.AppendUint32(c.xw.AvailableBuffer(), math.Float32bits(float32(v))))
	}
	label := strings.TrimSpace(fields[len(fields)-1])
	whole, real, fraction, err := parseLabel(label)
	if err != nil {
		return columnFault(len(fields)-1, label, err)
	}
	c.n++
	_, _ = c.rw.Write(binary.LittleEndian.AppendUint32(c.rw.AvailableBuffer(), math.Float32bits(real)))
	if c.fractions = c.fractions || fraction; !c.fractions {
		_, _ = c.ww.Write(binary.LittleEndian.AppendUint64(c.ww.AvailableBuffer(), uint64(whole)))
	}
	return nil
}

var errLabel = errors.New("the label is not finite")

// parseLabel reads a label as both types; fraction: it is no int64. "3.0" is
// the whole number 3.
func parseLabel(text string) (whole int64, real float32, fraction bool, err error) {
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		return whole, float32(whole), false, nil
	}
	v, err := strconv.ParseFloat(text, 32)
	if err != nil {
		return 0, 0, false, err
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, 0, false, errLabel
	}
	exact, err := strconv.ParseFloat(text, 64)
	if err != nil || exact != math.Trunc(exact) || math.Abs(exact) > 1<<53 {
		return 0, float32(v), true, nil
	}
	return int64(exact), float32(v), false, nil
}

func columnFault(column int, text string, err error) error {
	switch {
	case errors.Is(err, errLabel):
		return fault.New(csvOp, fault.Invalid, "column %d: %w: %q", column+1, errLabel, text)
	case errors.Is(err, strconv.ErrRange):
		return fault.New(csvOp, fault.Invalid, "column %d: %.40q does not fit a float32", column+1, text)
	}
	return fault.New(csvOp, fault.Invalid, "column %d: %.40q is no number", column+1, text)
}

// close says where the columns are; features is how many x has.
func (c *csvColumns) close(features int64) (pair, error) {
	for _, w := range []*bufio.Writer{c.xw, c.ww, c.rw} {
		if err := w.Flush(); err != nil {
			return pair{}, err
		}
	}
	p := pair{
		x: rows{typ: tensor.NpyFloat32, n: c.n, sample: []int64{features}, data: c.x},
		y: rows{typ: tensor.NpyInt64, n: c.n, data: c.whole},
	}
	if c.fractions {
		p.y = rows{typ: tensor.NpyFloat32, n: c.n, data: c.real}
	}
	return p, nil
}

// gunzip returns what r holds, unpacked if it is gzipped.
func gunzip(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, nil
	}
	zr, err := gzip.NewReader(in)
	if err != nil {
		return nil, csvFault(err)
	}
	return zr, nil
}

// skipBOM drops the byte order mark that spreadsheets write.
func skipBOM(r io.Reader) io.Reader {
	in := bufio.NewReaderSize(r, 64<<10)
	if bom, _ := in.Peek(3); string(bom) == "\ufeff" {
		_, _ = in.Discard(3)
	}
	return in
}

// csvFault gives an error of the readers below its kind.
func csvFault(err error) error {
	_, broken := errors.AsType[flate.CorruptInputError](err)
	_, syntax := errors.AsType[*csv.ParseError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fault.New(csvOp, fault.Corrupt, "truncated: the gzip stream ends too early")
	case broken, errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return fault.New(csvOp, fault.Corrupt, "broken gzip stream: %w", err)
	case syntax:
		return fault.New(csvOp, fault.Invalid, "%w", err)
	}
	if fault.KindOf(err) != fault.Unknown {
		return err
	}
	return fault.New(csvOp, fault.Unavailable, "read: %w", err)
}
