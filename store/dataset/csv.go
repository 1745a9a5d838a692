package dataset

import (
	"bufio"
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

// readCSV reads comma-separated numbers: one sample a line, an optional header
// line; its label in the column that the header calls label, for "" in the last.
// x is [n, columns-1] float32; y is [n] int64 when every label is a whole
// number, else float32. It counts the NaNs and infinities of x.
//
// Memory: one line and the buffers; the numbers go to spools. Invalid, with
// the line: another count of columns, no number, a number beyond float32, a
// label that is not finite, no sample, no such column. Corrupt: a broken gzip
// stream.
func readCSV(ctx context.Context, r io.Reader, label string, newSpool func() (spool, error)) (p pair, nonFinite int64, err error) {
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
			if out.label, header, err = labelColumn(fields, label); err != nil {
				return pair{}, 0, fault.New(csvOp, fault.KindOf(err), "line %d: %w", line, err)
			}
			if header {
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

// labelColumn returns the column of the label, and whether a first line is a
// header.
func labelColumn(first []string, label string) (column int, header bool, err error) {
	if label == "" {
		return len(first) - 1, isHeader(first), nil
	}
	column = -1
	names := make([]string, len(first))
	for i, field := range first {
		if names[i] = strings.TrimSpace(field); names[i] != label {
			continue
		}
		if column >= 0 {
			return 0, false, fault.New(csvOp, fault.Invalid, "columns %d and %d are both called %q", column+1, i+1, label)
		}
		column = i
	}
	switch {
	case column >= 0:
		return column, true, nil
	case !isHeader(first):
		return 0, false, fault.New(csvOp, fault.Invalid, "no column %q: the file has no header to name its columns", label)
	}
	return 0, false, fault.New(csvOp, fault.Invalid, "no column %q: the header names %s", label, some(names))
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
	label          int // its column
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
	for i, field := range fields {
		if i == c.label {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
		if err != nil {
			return columnFault(i, field, err)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			c.nonFinite++
		}
		_, _ = c.xw.Write(binary.LittleEndian.AppendUint32(c.xw.AvailableBuffer(), math.Float32bits(float32(v))))
	}
	label := strings.TrimSpace(fields[c.label])
	whole, real, fraction, err := parseLabel(label)
	if err != nil {
		return columnFault(c.label, label, err)
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
	if _, syntax := errors.AsType[*csv.ParseError](err); syntax {
		return fault.New(csvOp, fault.Invalid, "%w", err)
	}
	return gzipFault(err)
}
