package main

import (
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
	planes "github.com/troupe-ml/troupe/plane/remote"
	"github.com/troupe-ml/troupe/store"
	stores "github.com/troupe-ml/troupe/store/remote"
)

// Where a node has what others may read.
const (
	planePath = "/plane"
	storePath = "/store"
	otherPath = "/company" // what its actors' company serves
)

// idleCopies is how many bytes of other nodes' tensors a node keeps that nobody
// reads.
const idleCopies = 1 << 30

// peers is what a node has for others and they for it. It is the Handler of its
// cluster, which is to be set in it once it is there.
type peers struct {
	cluster *cluster.Cluster
	leads   bool
	led     atomic.Pointer[string]        // the node that led last
	bucket  bucket                        // of a node that does not lead
	handler atomic.Pointer[http.ServeMux] // nil: nothing is here yet
	space   *planes.Space
}

// ServeHTTP implements http.Handler.
func (p *peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := p.handler.Load(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	http.Error(w, "this node is about to begin", http.StatusServiceUnavailable)
}

// nodes is what the company gets of the cluster.
func (p *peers) nodes(labels map[string]string) *actors.Nodes {
	n := &actors.Nodes{
		Directory: p.cluster, Remote: p.cluster.Remote, Open: p.open, Watch: p.watch, Labels: labels, Version: thisBuild().Version,
		Serve: p.serve, Client: p.companyOf,
	}
	if !p.leads {
		n.Store = p.bucket.Store
	}
	return n
}

// open lets others read what this node has, and the node what they have.
func (p *peers) open(local plane.Space, bucket store.Store) plane.Space {
	mux := http.NewServeMux()
	mux.Handle(planePath+"/", http.StripPrefix(planePath, planes.NewHandler(p.cluster.Self(), local)))
	if p.leads {
		mux.Handle(storePath+"/", http.StripPrefix(storePath, stores.NewHandler(bucket)))
	}
	p.space = planes.New(planes.Config{Local: local, Node: p.cluster.Self(), Peer: p.planeOf, Idle: idleCopies})
	p.handler.Store(mux)
	return p.space
}

// serve lets others reach h.
func (p *peers) serve(h http.Handler) {
	p.handler.Load().Handle(otherPath+"/", http.StripPrefix(otherPath, h))
}

// companyOf says where a node has what it serves.
func (p *peers) companyOf(node string) (*http.Client, string, error) {
	client, base, err := p.cluster.Client(node)
	return client, base + otherPath, err
}

// planeOf says where a node has its plane.
func (p *peers) planeOf(node string) (*http.Client, string, error) {
	client, base, err := p.cluster.Client(node)
	return client, base + planePath, err
}

// leader says where the store of the node that leads is.
func (p *peers) leader() (*http.Client, string, error) {
	node := p.cluster.Leader()
	if node != "" {
		p.led.Store(&node)
	} else if led := p.led.Load(); led != nil {
		node = *led
	}
	client, base, err := p.cluster.Client(node)
	switch {
	case node == "":
		return nil, "", fault.New("up.store", fault.Unavailable, "the node that leads, which has the store, is not known yet")
	case err != nil:
		return nil, "", fault.New("up.store", fault.Unavailable, "the store is only on node %s, which does not answer: start it again, with its store", node)
	}
	return client, base + storePath, nil
}

// storeName says to people in which store the node works.
func (p *peers) storeName(own string) string {
	if p.bucket.shared {
		return own
	}
	return "that of node " + p.cluster.Leader()
}

// watch calls on with the nodes that are there, and ends what is fetched from
// those that are not any more.
func (p *peers) watch(on func([]string)) (stop func()) {
	var before []string
	return p.cluster.Watch(func(members []cluster.Member) {
		var now []string
		for _, m := range members {
			if m.Alive {
				now = append(now, m.Node)
			}
		}
		for _, node := range before {
			if !slices.Contains(now, node) {
				p.space.Gone(node)
			}
		}
		before = now
		on(now)
	})
}
