package metrics

import "github.com/prometheus/client_golang/prometheus"

// sourceCollectors returns a collector for each source that there is.
func sourceCollectors(s Sources) []prometheus.Collector {
	var all []prometheus.Collector
	gauge := func(name, help string, value func() float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	if s.Slots != nil {
		gauge("troupe_slots", "Slots of this node that are usable.", func() float64 { usable, _ := s.Slots(); return float64(usable) })
		gauge("troupe_slots_busy", "Slots of this node that are at work.", func() float64 { _, busy := s.Slots(); return float64(busy) })
	}
	if s.Queue != nil {
		gauge("troupe_jobs_waiting", "Jobs that wait for a slot.", func() float64 { return float64(s.Queue()) })
	}
	if s.DeadLetters != nil {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "troupe_dead_letters_total", Help: "Messages that have found nobody.",
		}, func() float64 { return float64(s.DeadLetters()) }))
	}
	if s.Mailboxes != nil {
		all = append(all, &mailboxes{ask: s.Mailboxes, desc: prometheus.NewDesc("troupe_mailbox_depth", "Messages that wait for an actor.", []string{"actor"}, nil)})
	}
	return all
}

// mailboxes has a series for each actor that there is at the moment.
type mailboxes struct {
	ask  func() map[string]int
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (m *mailboxes) Describe(to chan<- *prometheus.Desc) { to <- m.desc }

// Collect implements prometheus.Collector.
func (m *mailboxes) Collect(to chan<- prometheus.Metric) {
	for actor, depth := range m.ask() {
		to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(depth), actor)
	}
}
