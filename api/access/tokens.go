package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/pki"
)

// Tokens are the tokens of a server, of which it knows the SHA-256 only. It is
// safe for concurrent use.
type Tokens struct {
	dir         string
	fingerprint [sha256.Size]byte

	mu      sync.Mutex // guards entries and the file
	entries []entry
}

// entry is a token in tokens.json.
type entry struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	SHA256  string    `json:"sha256"` // of the token as text
	Created time.Time `json:"created"`
}

// Authority is the SHA-256 of the certificate of the authority that has signed
// the server's, see pki.Pinned.
func (t *Tokens) Authority() [sha256.Size]byte { return t.fingerprint }

func newEntry(name string, role Role, token string) entry {
	sum := sha256.Sum256([]byte(token))
	return entry{Name: name, Role: role.String(), SHA256: hex.EncodeToString(sum[:]), Created: time.Now().UTC().Truncate(time.Second)}
}

// role says what the bearer of a token may do. It looks at all tokens, whatever
// it finds, and compares each in constant time.
func (t *Tokens) role(token string) (Role, bool) {
	sum := sha256.Sum256([]byte(token))
	given := []byte(hex.EncodeToString(sum[:]))
	t.mu.Lock()
	defer t.mu.Unlock()
	found, role := 0, 0
	for _, e := range t.entries {
		r, err := ParseRole(e.Role)
		if err != nil {
			continue
		}
		same := subtle.ConstantTimeCompare(given, []byte(e.SHA256))
		role = subtle.ConstantTimeSelect(same, int(r), role)
		found |= same
	}
	return Role(role), found == 1
}

// Create makes a token with a name and a role, and returns it: it is not to be
// had again. Invalid: the name; Conflict: there is one of that name;
// Unavailable.
func (t *Tokens) Create(name string, role Role) (string, error) {
	const op = "access.create"
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }) {
		return "", fault.New(op, fault.Invalid, "token name %.70q: give 1 to 64 of a-z, 0-9, . _ and -", name)
	}
	token := pki.NewToken(pki.ForAPI, t.fingerprint)
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.ContainsFunc(t.entries, func(e entry) bool { return e.Name == name }) {
		return "", fault.New(op, fault.Conflict, "there is a token %q: revoke it, or give another name", name)
	}
	if err := t.saveLocked(append(slices.Clone(t.entries), newEntry(name, role, token))); err != nil {
		return "", err
	}
	return token, nil
}

// Revoke makes the token of that name worthless at once. NotFound; Conflict:
// nobody could undo it; Unavailable.
func (t *Tokens) Revoke(name string) error {
	const op = "access.revoke"
	t.mu.Lock()
	defer t.mu.Unlock()
	entries := slices.DeleteFunc(slices.Clone(t.entries), func(e entry) bool { return e.Name == name })
	if len(entries) == len(t.entries) {
		return fault.New(op, fault.NotFound, "there is no token %.70q", name)
	}
	if !slices.ContainsFunc(entries, func(e entry) bool { return e.Role == Admin.String() }) {
		return fault.New(op, fault.Conflict, "token %q is the last with the role admin: create another one first", name)
	}
	return t.saveLocked(entries)
}

// saveLocked writes the tokens, and has them only then.
func (t *Tokens) saveLocked(entries []entry) error {
	body, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return err
	}
	if err := pki.WriteSecret(t.dir, tokensFile, append(body, '\n')); err != nil {
		return err
	}
	t.entries = entries
	return nil
}

// load reads the tokens. NotFound: there is no such file.
func (t *Tokens) load() error {
	body, err := pki.ReadSecret(t.dir, tokensFile)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := json.Unmarshal(body, &t.entries); err != nil {
		return fault.New("access.load", fault.Corrupt, "%s: %w: remove the folder %s to make all of it anew", filepath.Join(t.dir, tokensFile), err, t.dir)
	}
	return nil
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}
