package sim

import (
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// lease is the state of a fenced lock: its holder and the last number.
type lease struct {
	last   int64
	holder string
}

type leaseStep struct {
	acquire bool
	token   string
	fence   int64
}

// fenced is the lock as a linearizable object. An acquisition finds the lock free and gets a larger
// number than all before. A resumed claim keeps its number.
var fenced = porcupine.Model{
	Init: func() any { return lease{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lease), input.(leaseStep)
		switch {
		case !in.acquire:
			return s.holder == in.token, lease{last: s.last}
		case s.holder != "":
			return false, s
		default:
			return in.fence > s.last, lease{in.fence, in.token}
		}
	},
}

// linear reports whether the holds of one name are the history of a fenced lock. Several holds may
// be parts of one token's hold.
func linear(holds []*hold) bool {
	byToken := map[string]*hold{}
	var order []string
	for _, h := range holds {
		whole := byToken[h.token]
		if whole == nil {
			whole = &hold{token: h.token, fence: h.fence, asked: h.asked, done: h.done, from: h.from, to: h.to}
			byToken[h.token] = whole
			order = append(order, h.token)
		}
		if h.to.After(whole.to) {
			whole.to = h.to
		}
	}
	var ops []porcupine.Operation
	for i, token := range order {
		h := byToken[token]
		ops = append(ops,
			porcupine.Operation{ClientId: i, Input: leaseStep{true, token, h.fence}, Call: h.asked.UnixNano(), Return: h.done.UnixNano()},
			// The instant of its end is known exactly, and the next operation may have the same
			// instant.
			porcupine.Operation{ClientId: i, Input: leaseStep{false, token, h.fence}, Call: h.to.UnixNano(), Return: math.MaxInt64})
	}
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	return porcupine.CheckOperations(fenced, ops)
}
