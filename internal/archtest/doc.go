// Package archtest keeps the tree as CONTRIBUTING.md draws it: who imports
// whom, what a file may look like, which folders there are. Its test walks this
// repository; table.go is the law, as data.
package archtest
