// Package cluster makes one company of the nodes of several machines: who is
// there, how actors of one reach those of another, and over what connection
// everything else goes.
package cluster
