package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-ml/troupe/internal/fault"
)

// maxFile bounds the configuration file.
const maxFile = 1 << 20 // bytes

// Key is a setting that need not be typed each time: a line of the file
// (slots: 8), a variable (TROUPE_SLOTS=8), a flag (--slots 8), of which the
// later counts.
type Key struct {
	Name    string // in the file, and of the flag
	Default string // for people, where nothing says otherwise
}

// Env is the variable of a key.
func (k Key) Env() string { return "TROUPE_" + strings.ToUpper(strings.ReplaceAll(k.Name, "-", "_")) }

// Keys lists all settings. What belongs to a job is not among them: the same
// command line trains the same model, whatever a file says.
func Keys() []Key {
	return []Key{
		{"server", "http://" + DefaultAPI().Listen + " if there is one, else none"},
		{"token-file", "none"},
		{"store", "the user's data folder"},
		{"cache", "the user's cache folder"},
		{"cache-limit", "50GiB"},
		{"listen", DefaultAPI().Listen},
		{"tls-dir", "beside the configuration"},
		{"policy", "throughput"},
		{"jobs", JobsHere},
		{"slots", "cores"},
		{"threads", "cores/slots"},
		{"python", "the first one found that has torch"},
		{"memory-limit", "none"},
		{"idle-timeout", "1m0s"},
		{"no-pin", "false"},
		{"gpus", "auto"},
		{"isolate", "false"},
	}
}

// Setting is the value of a key, and who says so.
type Setting struct {
	Value string
	From  string // "TROUPE_SLOTS", or "/home/ann/.config/troupe/config.yaml:3"
	Env   bool   // it is a variable that says so
}

// Settings are what file and environment say.
type Settings struct {
	file   string
	values map[string]Setting // by key
}

// Load reads the configuration file, which need not be there, and the
// environment. Invalid, naming file and line: no YAML, an unknown key, a value
// that is no plain one; Unavailable.
func Load(getenv func(string) string) (*Settings, error) {
	s := &Settings{file: DefaultFile(getenv), values: map[string]Setting{}}
	if s.file != "" {
		text, err := readFile(s.file)
		if err == nil {
			err = s.parse(text)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, k := range Keys() {
		if value := getenv(k.Env()); value != "" {
			s.values[k.Name] = Setting{Value: value, From: k.Env(), Env: true}
		}
	}
	return s, nil
}

// File is where the configuration file is, or would be; "": nowhere.
func (s *Settings) File() string { return s.file }

// Get returns what was set, if anything.
func (s *Settings) Get(key string) (Setting, bool) {
	v, ok := s.values[key]
	return v, ok
}

func readFile(path string) ([]byte, error) {
	const op = "config.read"
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(op, fault.Unavailable, "read the configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fault.New(op, fault.Unavailable, "read the configuration: %w", err)
	case len(text) > maxFile:
		return nil, fault.New(op, fault.Invalid, "%s is longer than %d bytes: it holds a line for each setting", path, maxFile)
	}
	return text, nil
}

// parse takes in the text of the file: one mapping from keys to plain values.
func (s *Settings) parse(text []byte) error {
	invalid := func(line int, format string, args ...any) error {
		at := s.file
		if line > 0 {
			at = fmt.Sprintf("%s:%d", s.file, line)
		}
		return fault.New("config.parse", fault.Invalid, "%s: %w", at, fmt.Errorf(format, args...))
	}
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // empty, or comments alone
	} else if err != nil {
		return invalid(0, "%w", err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return invalid(more.Line, "there is a second document: give one")
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil
	}
	if top.Kind != yaml.MappingNode {
		return invalid(top.Line, `want lines such as "slots: 8"`)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		_, twice := s.values[key.Value]
		switch {
		case !isKey(key.Value):
			return invalid(key.Line, "there is no setting %.60q: %s", key.Value, DidYouMean(key.Value[:min(len(key.Value), 60)], keyNames()))
		case twice:
			return invalid(key.Line, "%s is set twice", key.Value)
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			return invalid(value.Line, "%s: give one value, or leave the line out", key.Value)
		}
		s.values[key.Value] = Setting{Value: value.Value, From: fmt.Sprintf("%s:%d", s.file, value.Line)}
	}
	return nil
}

func keyNames() []string {
	var names []string
	for _, k := range Keys() {
		names = append(names, k.Name)
	}
	return names
}

func isKey(name string) bool {
	for _, k := range Keys() {
		if k.Name == name {
			return true
		}
	}
	return false
}

// DefaultFile returns where the configuration file is: config.yaml in the
// folder troupe of the user's configuration folder ($XDG_CONFIG_HOME, which
// counts only when absolute, or ~/.config); "" where no variable says where
// that is.
func DefaultFile(getenv func(string) string) string {
	if dir := userFolder(getenv); dir != "" {
		return filepath.Join(dir, "config.yaml")
	}
	return ""
}

// userFolder is where the user's configuration of troupe is, or "".
func userFolder(getenv func(string) string) string {
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "troupe")
}
