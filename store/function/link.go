package function

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Remote is the runtime of functions that HTTP endpoints run.
const Remote = "remote"

const (
	// MaxURLs is how many endpoints a function may have.
	MaxURLs = 1024
	linkOp  = "function.link"
)

// Link makes a function of the endpoints at urls the current version of a name;
// see CheckName. Each is tried where another one failed. What they run is
// theirs: the version names the URLs, in whatever order and however often they
// were given, and not the code behind them.
//
// Invalid, with the reason: no URL, one that is none, more than MaxURLs, a
// reserved name. Unavailable.
func (c *Catalog) Link(ctx context.Context, name string, urls []string) (Info, error) {
	if err := c.checkFree(linkOp, name); err != nil {
		return Info{}, err
	}
	urls = slices.Compact(slices.Sorted(slices.Values(urls)))
	if err := checkURLs(urls); err != nil {
		return Info{}, fault.New(linkOp, fault.Invalid, "function %q: %w", name, err)
	}
	p := &program{info: Info{Name: name, Version: linkVersion(urls), Runtime: Remote, URLs: urls, Files: []File{}}}
	if err := c.save(ctx, p); err != nil {
		return Info{}, fault.New(linkOp, fault.KindOf(err), "store function %q: %w", name, err)
	}
	return p.info, nil
}

// linkVersion is the SHA-256 over an empty text, which no program's entry is,
// and the URLs in order, each in the form of versionOf.
func linkVersion(urls []string) string {
	h := sha256.New()
	writeText(h, "")
	for _, u := range urls {
		writeText(h, u)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func checkURLs(urls []string) error {
	switch n := len(urls); {
	case n == 0:
		return fault.New(linkOp, fault.Invalid, "it has no URL: give that of an endpoint, such as http://127.0.0.1:8000/")
	case n > MaxURLs:
		return fault.New(linkOp, fault.Invalid, "it has %d URLs: give at most %d", n, MaxURLs)
	}
	for _, text := range urls {
		if err := config.CheckURL(text); err != nil {
			return err
		}
	}
	return nil
}
