package trust

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/pki"
)

const (
	// TokenLife is how long a join token is good for.
	TokenLife = 24 * time.Hour
	// tokenMemory is how long after that is still known what became of it.
	tokenMemory = 7 * 24 * time.Hour
	// mostOfOneName bounds how many there are that AddToken makes.
	mostOfOneName = 100

	joinsFile = "joins.json"
)

// entry is a join token in joins.json. Of its secret only a hash is kept, with
// which the proof of who has the secret is checked.
type entry struct {
	Name    string    `json:"name"`
	Key     string    `json:"key"` // see proofKey
	Created time.Time `json:"created"`
	Ends    time.Time `json:"ends"`
	Revoked bool      `json:"revoked,omitempty"`
}

func (e entry) good(now time.Time) bool { return !e.Revoked && !now.After(e.Ends) }

// CreateToken makes a join token that is good for TokenLife, and returns it: it
// is not to be had again. Invalid: the name; Conflict: there is one of that name
// that is still good; Unavailable.
func (a *Authority) CreateToken(name string) (string, error) {
	now := time.Now()
	return a.createToken(name, now, func(entries []entry) ([]entry, error) {
		if slices.ContainsFunc(entries, func(e entry) bool { return e.Name == name && e.good(now) }) {
			return nil, fault.New("trust.token", fault.Conflict, "there is a join token %q: revoke it, or give another name", name)
		}
		return entries, nil
	})
}

// AddToken is CreateToken beside those of that name, which stay good; of very many
// the oldest goes.
func (a *Authority) AddToken(name string) (string, error) {
	return a.createToken(name, time.Now(), func(entries []entry) ([]entry, error) {
		left := mostOfOneName - 1
		for i, e := range slices.Backward(entries) {
			if e.Name != name {
				continue
			}
			if left--; left < 0 {
				entries = slices.Delete(entries, i, i+1)
			}
		}
		return entries, nil
	})
}

// createToken makes a token; prepare is given what is known of others, and returns
// what is to be kept of that.
func (a *Authority) createToken(name string, now time.Time, prepare func([]entry) ([]entry, error)) (string, error) {
	const op = "trust.token"
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }) {
		return "", fault.New(op, fault.Invalid, "token name %.70q: give 1 to 64 of a-z, 0-9, . _ and -", name)
	}
	token := pki.NewToken(pki.ForJoin, a.Fingerprint())
	_, secret, err := pki.ParseToken(pki.ForJoin, token)
	if err != nil {
		return "", err
	}
	return token, a.change(func(entries []entry) ([]entry, error) {
		entries, err := prepare(slices.DeleteFunc(entries, func(e entry) bool { return now.Sub(e.Ends) > tokenMemory }))
		if err != nil {
			return nil, err
		}
		made := now.UTC().Truncate(time.Second)
		return append(entries, entry{Name: name, Key: hex.EncodeToString(proofKey(secret)), Created: made, Ends: made.Add(TokenLife)}), nil
	})
}

// RevokeToken makes the join tokens of that name worthless at once; nodes that
// have joined with them stay. NotFound, Unavailable.
func (a *Authority) RevokeToken(name string) error {
	now := time.Now()
	return a.change(func(entries []entry) ([]entry, error) {
		some := false
		for i, e := range entries {
			if e.Name == name && e.good(now) {
				entries[i].Revoked, some = true, true
			}
		}
		if !some {
			return nil, fault.New("trust.revoke", fault.NotFound, "there is no join token %.70q", name)
		}
		return entries, nil
	})
}

func (a *Authority) change(f func([]entry) ([]entry, error)) error {
	return pki.Locked(a.dir, func() error {
		var entries []entry
		if err := readJSON(a.dir, joinsFile, &entries); err != nil {
			return err
		}
		entries, err := f(entries)
		if err != nil {
			return err
		}
		return writeJSON(a.dir, joinsFile, entries)
	})
}

// check returns nil if a proof was made with the secret of a token that is good.
// It looks at all of them, whatever it finds.
func (a *Authority) check(proof, bound []byte, now time.Time) error {
	const op = "trust.check"
	var entries []entry
	if err := pki.Locked(a.dir, func() error { return readJSON(a.dir, joinsFile, &entries) }); err != nil {
		return err
	}
	var found *entry
	for i := range entries {
		key, err := hex.DecodeString(entries[i].Key)
		if err == nil && hmac.Equal(proof, prove(key, bound)) {
			found = &entries[i]
		}
	}
	const remedy = "get one with troupe cluster token create --name NODE --role join, or from the lines that troupe up prints"
	switch {
	case found == nil:
		return fault.New(op, fault.Invalid, "the join token is unknown here: it was changed, or is older than %d days, or the request is a copy: %s", int((TokenLife+tokenMemory).Hours()/24), remedy)
	case found.Revoked:
		return fault.New(op, fault.Invalid, "the join token %q was revoked: %s", found.Name, remedy)
	case now.After(found.Ends):
		return fault.New(op, fault.Invalid, "the join token %q has ended at %s, as each does after %v: %s", found.Name, found.Ends.Format(time.RFC3339), TokenLife, remedy)
	}
	return nil
}

// proofKey is what the authority keeps of a token's secret.
func proofKey(secret []byte) []byte {
	sum := sha256.Sum256(append([]byte("troupe join "), secret...))
	return sum[:]
}

// prove is the proof that whoever sends bound knows the key.
func prove(key, bound []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(bound)
	return mac.Sum(nil)
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}
