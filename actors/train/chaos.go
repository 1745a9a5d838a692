package train

import "math"

// drawCrash is the purpose of the draw that crashes the job itself.
const drawCrash purpose = "crash"

// crashes reports whether --chaos has the job crash over the merge that is
// done. Each incarnation draws anew, so that one gets by.
func (s *state) crashes() bool {
	share := s.opts.GetChaos().GetCrashJob()
	draw := derive(s.opts.GetChaos().GetSeed(), drawCrash, s.epoch, s.round, uint32(s.ref.GetIncarnation()))
	return float64(draw) < share*math.MaxUint64
}
