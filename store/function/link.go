package function

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Remote is the runtime of functions that HTTP endpoints run.
const Remote = "remote"

const (
	// MaxURLs is how many endpoints a function may have.
	MaxURLs = 1024
	// MaxURL is how many bytes the URL of an endpoint may have.
	MaxURL = 2048

	linkOp = "function.link"
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
		if err := checkURL(text); err != nil {
			return err
		}
	}
	return nil
}

// checkURL refuses what cannot be the URL of an endpoint. Its query is kept and
// ours added to it, so it may have one.
func checkURL(text string) error {
	invalid := func(format string, args ...any) error { return fault.New(linkOp, fault.Invalid, format, args...) }
	if len(text) > MaxURL {
		return invalid("the URL %.70q… has %d bytes: give at most %d", text, len(text), MaxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return invalid("%w", err)
	case u.User != nil: // said first, and without what may be a password
		return invalid("the URL of host %q has a user name: leave it out; who may call an endpoint is decided by what stands before it", u.Host)
	case u.Scheme != "http" && u.Scheme != "https":
		return invalid("the URL %q is neither http nor https: give one such as http://127.0.0.1:8000/", text)
	case u.Opaque != "" || u.Hostname() == "":
		return invalid("the URL %q names no host: give one such as http://127.0.0.1:8000/", text)
	case u.Fragment != "":
		return invalid("the URL %q has a fragment, #%s: leave it out", text, u.Fragment)
	}
	return nil
}
