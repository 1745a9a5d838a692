package python

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// maxFrame bounds the JSON text of a frame, in bytes, in both directions.
const maxFrame = 16 << 20

// frameError says that what came is no frame: the other side is not one of ours
// any more.
type frameError struct{ text string }

func (e *frameError) Error() string { return e.text }

// errTooLong says that a message does not fit a frame.
type errTooLong struct{ size int }

func (e errTooLong) Error() string {
	return fmt.Sprintf("a message of %d bytes is longer than %d", e.size, maxFrame)
}

// writeFrame writes v as a frame: the length of its JSON text (4 bytes, big
// endian), and that text. It writes nothing when the text is too long.
func writeFrame(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > maxFrame {
		return errTooLong{len(text)}
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text)))
	_, err = w.Write(append(frame, text...))
	return err
}

// readFrame reads one frame into v. Errors: *frameError for what is no frame;
// io.EOF where there is none; others of r, io.ErrUnexpectedEOF among them.
func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > maxFrame {
		return &frameError{fmt.Sprintf("it sent a frame of %d bytes, which may have %d", size, maxFrame)}
	}
	var text bytes.Buffer // grows with what comes, not with what is announced
	if n, err := io.CopyN(&text, r, size); err != nil {
		if n < size && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if err := json.Unmarshal(text.Bytes(), v); err != nil {
		return &frameError{fmt.Sprintf("it sent what is no message: %v: %.80q", err, text.Bytes())}
	}
	return nil
}
