package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

func TestAPIValidate(t *testing.T) {
	require.NoError(t, config.DefaultAPI().Validate())
	for says, change := range map[string]func(*config.API){
		`listen "nonsense"`: func(a *config.API) { a.Listen = "nonsense" },
		"max_connections 0": func(a *config.API) { a.MaxConnections = 0 },
		"max_streams -1":    func(a *config.API) { a.MaxStreams = -1 },
		"max_body 0":        func(a *config.API) { a.MaxBody = 0 },
		"patience 0":        func(a *config.API) { a.Patience = 0 },
		"heartbeat -1":      func(a *config.API) { a.Heartbeat = -time.Nanosecond },
	} {
		a := config.DefaultAPI()
		change(&a)
		err := a.Validate()
		require.ErrorContains(t, err, says)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}
