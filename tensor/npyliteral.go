package tensor

import (
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// literalParser reads the header of an npy file: a Python dict literal with
// the keys descr, fortran_order and shape, padded with spaces and a newline.
type literalParser struct {
	rest string
}

// header fills n from the dict.
func (p *literalParser) header(n *Npy) error {
	if !p.take("{") {
		return p.unexpected("a dict")
	}
	seen := map[string]bool{}
	for !p.take("}") {
		key, err := p.text()
		if err != nil {
			return err
		}
		if !p.take(":") {
			return p.unexpected("a colon")
		}
		if seen[key] {
			return npyCorrupt("header: %q occurs twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			err = p.descr(n)
		case "fortran_order":
			n.Fortran, err = p.truth()
		case "shape":
			n.Shape, err = p.shape()
		default:
			return npyCorrupt("header: unknown key %.40q", key)
		}
		if err != nil {
			return err
		}
		if !p.take(",") && !p.ahead("}") {
			return p.unexpected("a comma")
		}
	}
	if p.space(); p.rest != "" {
		return p.unexpected("the header's end")
	}
	if len(seen) != 3 {
		return npyCorrupt("header: descr, fortran_order and shape are not all there")
	}
	return nil
}

func (p *literalParser) descr(n *Npy) error {
	if p.ahead("[") || p.ahead("(") {
		return fault.New(npyOp, fault.Invalid, "structured dtype is not supported: save each field as an array of its own")
	}
	s, err := p.text()
	if err != nil {
		return err
	}
	n.DType, n.BigEndian, err = parseDescr(s)
	return err
}

func (p *literalParser) truth() (bool, error) {
	switch {
	case p.take("True"):
		return true, nil
	case p.take("False"):
		return false, nil
	}
	return false, p.unexpected("True or False")
}

// shape reads a tuple: (), (3,) or (3, 4), where Python 2 wrote 3L. (3) is
// accepted as none, being a number in Python.
func (p *literalParser) shape() ([]int64, error) {
	if !p.take("(") {
		return nil, p.unexpected("a tuple")
	}
	shape := []int64{}
	for !p.take(")") {
		digits := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
		d, err := strconv.ParseInt(p.rest[:digits], 10, 64)
		if err != nil {
			return nil, p.unexpected("a dimension")
		}
		p.rest = strings.TrimPrefix(p.rest[digits:], "L")
		shape = append(shape, d)
		comma := p.take(",")
		if !comma && (len(shape) == 1 || !p.ahead(")")) {
			return nil, p.unexpected("a comma")
		}
		p.space()
	}
	return shape, nil
}

// text reads a quoted string; what we read needs no escapes.
func (p *literalParser) text() (string, error) {
	p.space()
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", p.unexpected("a text")
	}
	s, rest, ok := strings.Cut(p.rest[1:], p.rest[:1])
	if !ok || strings.Contains(s, `\`) {
		return "", p.unexpected("a text")
	}
	p.rest = rest
	return s, nil
}

func (p *literalParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// ahead reports whether the next token is s.
func (p *literalParser) ahead(s string) bool {
	p.space()
	return strings.HasPrefix(p.rest, s)
}

// take consumes s if it is the next token.
func (p *literalParser) take(s string) bool {
	ok := p.ahead(s)
	if ok {
		p.rest = p.rest[len(s):]
	}
	return ok
}

func (p *literalParser) unexpected(want string) error {
	return npyCorrupt("header: %.40q where %s belongs", p.rest, want)
}
