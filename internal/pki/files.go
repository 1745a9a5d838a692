package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	lockFile = "lock"      // held while the folder changes, see Locked
	heldFile = "held.lock" // held while a process works with the folder, see Hold
)

// ReadSecret reads a file that must be its owner's alone. NotFound; Invalid:
// others may read it; Unavailable.
func ReadSecret(dir, name string) ([]byte, error) {
	const op = "pki.read"
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(op, fault.NotFound, "there is no %s", path)
	}
	if err != nil {
		return nil, fault.New(op, fault.Unavailable, "%w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(op, fault.Invalid, "%s may be read or changed by others (%v): chmod 600 it, and think of it as known", path, info.Mode().Perm())
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(op, fault.Unavailable, "%w", err)
	}
	return body, nil
}

// WriteSecret replaces a file, for its owner alone, whole or not at all.
func WriteSecret(dir, name string, body []byte) (err error) {
	defer func() {
		if err != nil {
			err = fault.New("pki.write", fault.Unavailable, "write %s: %w", filepath.Join(dir, name), err)
		}
	}()
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Locked calls f while no other process is in the folder, which it makes.
func Locked(dir string, f func() error) error {
	const op = "pki.lock"
	lock, err := openLock(dir, lockFile)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks
	for {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fault.New(op, fault.Unavailable, "lock %s: %w", lock.Name(), err)
	}
	return f()
}

// ErrHeld is behind the error about a folder that is another process's.
var ErrHeld = errors.New("another process works with it")

// Hold makes a folder that of this process until release is called, or the
// process ends. Conflict, behind it ErrHeld: it is that of another one.
func Hold(dir string) (release func(), err error) {
	for {
		lock, err := openLock(dir, heldFile)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return nil, errors.Join(fault.New("pki.hold", fault.Conflict, "%s: %w", dir, ErrHeld), lock.Close())
		}
		mine, err := lock.Stat()
		if there, gone := os.Stat(lock.Name()); err == nil && gone == nil && os.SameFile(mine, there) {
			return func() { _ = lock.Close() }, nil
		}
		_ = lock.Close() // who had it has abandoned the folder just now
	}
}

// Abandon removes a folder that this process holds, and that has nothing else in it.
func Abandon(dir string) {
	_ = os.Remove(filepath.Join(dir, heldFile)) // who waits for it looks again
	_ = os.Remove(dir)
}

func openLock(dir, name string) (*os.File, error) {
	const op = "pki.lock"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(op, fault.Unavailable, "make the folder for certificates: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(op, fault.Unavailable, "lock the folder for certificates: %w", err)
	}
	return lock, nil
}

// LoadPair reads a certificate and its key. NotFound; Corrupt: one is damaged,
// or they do not belong together; Invalid, Unavailable as ReadSecret.
func LoadPair(dir, certName, keyName string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, err := LoadCertificate(dir, certName)
	if err != nil {
		return nil, nil, err
	}
	key, err := LoadKey(dir, keyName)
	if err != nil {
		return nil, nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, broken(dir, keyName)
	}
	return cert, key, nil
}

// LoadKey reads a key. NotFound, Corrupt, Invalid, Unavailable.
func LoadKey(dir, name string) (*ecdsa.PrivateKey, error) {
	block, err := readPEM(dir, name)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, broken(dir, name)
	}
	return key, nil
}

// SaveKey writes what LoadKey reads.
func SaveKey(dir, name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return WriteSecret(dir, name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// SavePair writes what LoadPair reads, the certificate last.
func SavePair(dir, certName, keyName string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	if err := SaveKey(dir, keyName, key); err != nil {
		return err
	}
	return SaveCertificate(dir, certName, cert)
}

// LoadCertificate reads a certificate. NotFound, Corrupt, Invalid, Unavailable.
func LoadCertificate(dir, name string) (*x509.Certificate, error) {
	block, err := readPEM(dir, name)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(block)
	if err != nil {
		return nil, broken(dir, name)
	}
	return cert, nil
}

// SaveCertificate writes what LoadCertificate reads.
func SaveCertificate(dir, name string, cert *x509.Certificate) error {
	return WriteSecret(dir, name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}

func readPEM(dir, name string) ([]byte, error) {
	body, err := ReadSecret(dir, name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(body)
	if block == nil {
		return nil, broken(dir, name)
	}
	return block.Bytes, nil
}

func broken(dir, name string) error {
	return fault.New("pki.load", fault.Corrupt,
		"%s is damaged, or does not belong to its neighbours: restore it, or remove the folder to make certificates and tokens anew", filepath.Join(dir, name))
}
