// Package remote runs functions that live behind HTTP endpoints, and share
// neither memory nor a file with the job that calls them.
//
//	Runtime.Run ── POST function URL (Call) ────────────> endpoint
//	     │                                                 │
//	     │ opens an attempt                                │ GET  /assignment /data /model /optimizer
//	     v                                                 v PUT  /model /optimizer
//	  Exchange <───────────── the job's URL ────────────── │ POST /next
//	     │                                                 │
//	     └── Answer <── results (of the call or of /next) ─┘
//
// The Exchange is the job's side of that: it serves what the open attempts hold
// and takes what they give, and refuses everything else without changing
// anything. An attempt is open while its Run lasts. Package endpoint is the other
// side. docs/functions-over-http.md says what goes over the wire, ADR 26 why.
package remote
