package function

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"path"
	"path/filepath"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	folder       = "functions"
	code         = "code" // keeps a program's manifest.json apart from ours
	manifestName = "manifest.json"
	maxManifest  = 4 << 20 // bytes
)

func manifestKey(name, version string) string { return path.Join(folder, name, version, manifestName) }

func fileKey(name, version, file string) string {
	return path.Join(folder, name, version, code, file)
}

// versionOf is the SHA-256 over the files, in the order of their names: of
// each the length of its name as 8 bytes, little endian, the name, and its
// SHA-256 (32 bytes). Before them comes the entry in the same form, its digest
// left out.
func versionOf(entry string, files []File) string {
	h := sha256.New()
	writeText(h, entry)
	for _, f := range files {
		writeText(h, f.Name)
		sum, _ := hex.DecodeString(f.SHA256) // ours, or checked by check
		_, _ = h.Write(sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// writeText writes the length of a text and the text.
func writeText(h io.Writer, s string) {
	_ = binary.Write(h, binary.LittleEndian, uint64(len(s)))
	_, _ = io.WriteString(h, s)
}

// readManifest reads the manifest of a version. NotFound; Corrupt when it is
// not what was written.
func (c *Catalog) readManifest(ctx context.Context, name, version string) (Info, error) {
	const op = "function.open"
	b, err := store.Read(ctx, c.store, manifestKey(name, version), maxManifest)
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Invalid: // Invalid: no key, so no such version
		return Info{}, fault.New(op, fault.NotFound, "no function %q with version %.12s… in the store: %w", name, version, err)
	}
	if err != nil {
		return Info{}, err
	}
	var info Info
	if err := json.Unmarshal(b, &info); err != nil {
		return Info{}, fault.New(op, fault.Corrupt, "broken manifest %s: %w", manifestKey(name, version), err)
	}
	if reason := info.check(name, version); reason != "" {
		return Info{}, fault.New(op, fault.Corrupt, "broken manifest %s: %s", manifestKey(name, version), reason)
	}
	return info, nil
}

// check says what is wrong with a manifest that was read, or "". File names
// become paths on this machine, so they must stay within a folder.
func (i *Info) check(name, version string) string {
	if i.Name != name || i.Version != version {
		return "it is that of another program"
	}
	if i.Runtime == Remote {
		return i.checkLink()
	}
	entry := false
	for _, f := range i.Files {
		sum, err := hex.DecodeString(f.SHA256)
		if err != nil || len(sum) != sha256.Size || f.Bytes < 0 {
			return "a file without length or digest"
		}
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || path.Clean(f.Name) != f.Name {
			return "a file that leads out of the program"
		}
		entry = entry || f.Name == i.Entry
	}
	switch {
	case i.Version != versionOf(i.Entry, i.Files):
		return "it is that of another program"
	case !entry:
		return "its entry is none of its files"
	case i.Single && len(i.Files) != 1:
		return "one file that is several"
	case i.Runtime != Python:
		return "an unknown runtime"
	}
	return ""
}

// checkLink is check for a function that has endpoints.
func (i *Info) checkLink() string {
	switch {
	case len(i.Files) > 0 || i.Entry != "" || i.Single:
		return "a remote function with files"
	case checkURLs(i.URLs) != nil:
		return "a remote function without a URL that can be called"
	case !slices.IsSorted(i.URLs) || i.Version != linkVersion(i.URLs):
		return "it is that of other endpoints"
	}
	return ""
}
