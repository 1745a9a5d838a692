package child

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// MaxFrame bounds the JSON text of a frame, in bytes, in both directions.
const MaxFrame = 16 << 20

// FrameError says that what came is no frame: the other side is not one of ours
// any more.
type FrameError struct{ Text string }

func (e *FrameError) Error() string { return e.Text }

// TooLongError says that a message does not fit a frame.
type TooLongError struct{ Size int }

func (e TooLongError) Error() string {
	return fmt.Sprintf("a message of %d bytes is longer than %d", e.Size, MaxFrame)
}

// WriteFrame writes v as a frame: the length of its JSON text (4 bytes, big
// endian), and that text. It writes nothing when the text is too long.
func WriteFrame(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > MaxFrame {
		return TooLongError{len(text)}
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text)))
	_, err = w.Write(append(frame, text...))
	return err
}

// ReadFrame reads one frame into v. Errors: *FrameError for what is no frame;
// io.EOF where there is none; others of r, io.ErrUnexpectedEOF among them.
func ReadFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > MaxFrame {
		return &FrameError{fmt.Sprintf("it sent a frame of %d bytes, which may have %d", size, MaxFrame)}
	}
	var text bytes.Buffer // grows with what comes, not with what is announced
	if n, err := io.CopyN(&text, r, size); err != nil {
		if n < size && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if err := json.Unmarshal(text.Bytes(), v); err != nil {
		return &FrameError{fmt.Sprintf("it sent what is no message: %v: %.80q", err, text.Bytes())}
	}
	return nil
}
