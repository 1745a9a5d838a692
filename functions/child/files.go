package child

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Temps are the files of one invocation that somebody else has only in memory.
type Temps struct {
	Dir   string // where they are made
	paths []string
}

// Add returns the path of a new file with what fill writes.
func (t *Temps) Add(fill func(*os.File) error) (string, error) {
	f, err := os.CreateTemp(t.Dir, "temp-")
	if err != nil {
		return "", fault.New("child.file", fault.Unavailable, "make a temporary file: %w", err)
	}
	t.paths = append(t.paths, f.Name())
	err = fill(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", fault.New("child.file", fault.Unavailable, "write a temporary file: %w", err)
	}
	return f.Name(), nil
}

// Input returns where in is as a file, "" when it is empty.
func (t *Temps) Input(in functions.Input) (string, error) {
	if in.Path != "" || in.Size == 0 {
		return in.Path, nil
	}
	return t.Add(func(f *os.File) error {
		_, err := io.Copy(f, io.NewSectionReader(in.R, 0, in.Size))
		return err
	})
}

// Positions returns the path of a file of them, int64, little endian.
func (t *Temps) Positions(p []int64) (string, error) {
	return t.Add(func(f *os.File) error {
		var buf bytes.Buffer
		if err := binary.Write(&buf, binary.LittleEndian, p); err != nil {
			return err
		}
		_, err := f.Write(buf.Bytes())
		return err
	})
}

// Remove removes them.
func (t *Temps) Remove() {
	for _, path := range t.paths {
		_ = os.Remove(path)
	}
}

// Output is a file that a child writes.
type Output struct {
	Out    functions.Output // nil = not wanted
	writer io.Writer
	Size   int64
	Path   string // once reserved
	temp   bool   // path is not where Out keeps it
}

// Reserve makes the file.
func (o *Output) Reserve(t *Temps) (err error) {
	if o.Out != nil {
		if o.writer, err = o.Out.Create(o.Size); err != nil {
			return err
		}
		o.Path = o.Out.Path()
	}
	if o.Path == "" {
		o.temp = true
		o.Path, err = t.Add(func(f *os.File) error { return f.Truncate(o.Size) })
	}
	return err
}

// Settle puts what the child wrote to where it belongs.
func (o *Output) Settle() error {
	info, err := os.Stat(o.Path)
	if err == nil && info.Size() != o.Size {
		return fault.New("child.settle", fault.Unavailable, "a worker wrote %d bytes where it had asked for %d", info.Size(), o.Size)
	}
	if err == nil && o.temp && o.Out != nil {
		var f *os.File
		if f, err = os.Open(o.Path); err == nil {
			_, err = io.Copy(o.writer, f)
			_ = f.Close()
		}
	}
	if err != nil {
		return fault.New("child.settle", fault.Unavailable, "read what a worker wrote: %w", err)
	}
	return nil
}
