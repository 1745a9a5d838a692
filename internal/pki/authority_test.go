package pki_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/pki"
)

// Clocks of machines differ, by time zones and more: nobody finds a certificate
// that was just made to be one of the future.
func TestACertificateIsGoodOnMachinesWhoseClocksDiffer(t *testing.T) {
	now := time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	a, err := pki.NewAuthority(now)
	require.NoError(t, err)
	cert, _, err := a.IssueServer(nil, now)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate())
	for _, clock := range []time.Duration{-6 * 24 * time.Hour, -14 * time.Hour, 0, 14 * time.Hour, 300 * 24 * time.Hour} {
		_, err = cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now.Add(clock)})
		require.NoError(t, err, clock)
	}
}
