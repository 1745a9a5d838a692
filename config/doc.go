// Package config holds what can be set: one plain struct per subsystem, each
// with its defaults and its check. It reads no flags and opens nothing.
package config
