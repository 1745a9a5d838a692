package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

func TestCheckURL(t *testing.T) {
	for _, u := range []string{"http://a", "https://a.example:8443/f/g?key=1&x=", "http://[::1]:8000/"} {
		require.NoError(t, config.CheckURL(u))
	}
	for u, want := range map[string]string{
		"":                                      "is neither http nor https",
		"http://u:secret@a":                     "has a user name or a password",
		"http://a?x=%zz":                        "cannot be read",
		"http://a b":                            "is no URL",
		"http://a/" + strings.Repeat("x", 2048): "has 2057 bytes: give at most 2048",
	} {
		err := config.CheckURL(u)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
	web := config.DefaultAPI()
	web.JobURL = "https://troupe.example:8780"
	require.NoError(t, web.Validate())
	web.JobURL = "troupe.example"
	require.ErrorContains(t, web.Validate(), "job-url")
}
