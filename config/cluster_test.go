package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

func TestClusterValidateNamesWhatCannotBe(t *testing.T) {
	require.NoError(t, config.Cluster{}.Validate())
	require.NoError(t, config.Cluster{Join: "[2001:db8::1]:8780", Listen: ":0", Advertise: "2001:db8::2"}.Validate())
	for says, c := range map[string]config.Cluster{
		`join "here": give host:port`:                 {Join: "here"},
		`join ":8780": give host:port`:                {Join: ":8780"},
		`join "http://10.0.0.1:8780": give host:port`: {Join: "http://10.0.0.1:8780"},
		`join "a:0": give host:port`:                  {Join: "a:0"},
		`node-listen ":65535": actors take the next port, and there is none: give one up to 65534`: {Listen: ":65535"},
		`node-listen "8790": give host:port`:         {Listen: "8790"},
		`advertise "a:1": give a name or an address`: {Advertise: "a:1"},
		`advertise "http://a": give a name`:          {Advertise: "http://a"},
	} {
		err := c.Validate()
		require.Equal(t, fault.Invalid, fault.KindOf(err), says)
		require.ErrorContains(t, err, says)
	}
}

func TestParseLabels(t *testing.T) {
	labels, err := config.ParseLabels([]string{"zone=eu-1", "troupe.example/gpu=a100"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"zone": "eu-1", "troupe.example/gpu": "a100"}, labels)
	for says, texts := range map[string][]string{
		`label "zone": give name=value`:   {"zone"},
		`label "zone=": give name=value`:  {"zone="},
		`label "=eu": give name=value`:    {"=eu"},
		`label "zone=a b": give`:          {"zone=a b"},
		`label "zone=a,b=c": give`:        {"zone=a,b=c"},
		`label "zone" is given twice`:     {"zone=a", "zone=b"},
		`label "-zone=a": give name=valu`: {"-zone=a"},
	} {
		_, err := config.ParseLabels(texts)
		require.Equal(t, fault.Invalid, fault.KindOf(err), says)
		require.ErrorContains(t, err, says)
	}
}
