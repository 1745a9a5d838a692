package config

import (
	"net/url"
	"path/filepath"
)

// DefaultStore returns the URL of the store that is used where none is named:
// TROUPE_STORE if it is set, else the folder troupe in the user's data folder
// ($XDG_DATA_HOME, which counts only when absolute, or ~/.local/share). It
// returns "" where none of the variables says where that is.
func DefaultStore(getenv func(string) string) string {
	if u := getenv("TROUPE_STORE"); u != "" {
		return u
	}
	data := getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		data = filepath.Join(home, ".local", "share")
	}
	u := url.URL{Scheme: "file", Path: filepath.Join(data, "troupe")}
	return u.String()
}

// DefaultCacheLimit bounds the copies in DefaultCache, in bytes.
const DefaultCacheLimit = 50 << 30

// DefaultCache returns where copies of data sets and models lie that are in a store
// elsewhere: the folder troupe in the user's cache folder ($XDG_CACHE_HOME, which
// counts only when absolute, or ~/.cache), "" where none of the variables says
// where that is.
func DefaultCache(getenv func(string) string) string {
	cache := getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "troupe")
}

// DefaultTLSDir returns where certificates and tokens of a server lie unless
// said otherwise: the folder troupe/tls in the user's configuration folder
// ($XDG_CONFIG_HOME, which counts only when absolute, or ~/.config), "" where
// none of the variables says where that is.
func DefaultTLSDir(getenv func(string) string) string {
	if dir := userFolder(getenv); dir != "" {
		return filepath.Join(dir, "tls")
	}
	return ""
}
