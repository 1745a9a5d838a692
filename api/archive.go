package api

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

const maxFiles = 10_000 // of an archive

// unpack writes the files of a tar archive, gzipped or not, below a new folder.
// Invalid: what is no such archive; a name that leads out of the folder; what is
// neither file nor folder; too many files or bytes.
func unpack(dir string, from io.Reader, limit int64) error {
	buffered := bufio.NewReader(from)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return archiveError(err)
		}
		return untar(dir, unzipped, limit)
	}
	return untar(dir, buffered, limit)
}

func untar(dir string, from io.Reader, limit int64) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return noRoom(err)
	}
	archive := tar.NewReader(from)
	for n := 0; ; n++ {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return archiveError(err)
		}
		if n == maxFiles {
			return jobjson.Invalid("the archive has more than %d entries: send only what the function needs", maxFiles)
		}
		wrote, err := entry(dir, header, archive, limit)
		if err != nil {
			return err
		}
		limit -= wrote
	}
}

// entry writes one entry of an archive.
func entry(dir string, header *tar.Header, from io.Reader, limit int64) (int64, error) {
	name := path.Clean(strings.TrimSuffix(header.Name, "/"))
	if !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsAny(header.Name, "\\\x00") {
		return 0, jobjson.Invalid("the archive has %q: give only names below the folder", jobjson.Shown(header.Name))
	}
	to := filepath.Join(dir, filepath.FromSlash(name))
	switch header.Typeflag {
	case tar.TypeDir:
		return 0, folder(to, header.Name)
	case tar.TypeReg:
		if err := folder(filepath.Dir(to), header.Name); err != nil {
			return 0, err
		}
		return save(to, from, limit)
	}
	return 0, jobjson.Invalid("the archive has %q, which is neither a file nor a folder: leave it out", jobjson.Shown(header.Name))
}

// folder makes a folder. There are no links below ours that it could follow.
func folder(path, name string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		if info, wrong := os.Stat(path); wrong == nil && !info.IsDir() {
			return jobjson.Invalid("the archive has %q below a file: give each name once", jobjson.Shown(name))
		}
		return noRoom(err)
	}
	return nil
}

// archiveError tells what the client has cut off from what was none.
func archiveError(err error) error {
	if status, ok := jobjson.BodyError(err).(httpfault.StatusError); ok {
		return status
	}
	return jobjson.Invalid("this is no tar archive, gzipped or not, or it is cut off: %w", err)
}
