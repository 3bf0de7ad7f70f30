package escalation

// maxSteps limits one escalation check. At the limit a check takes about 0.4 s of processor time. Beyond it the grant
// is refused: otherwise a check that takes minutes could keep the server busy. A step is about the time to compare a
// name with a pattern; work that takes longer counts as several steps, whatever its purpose.
const maxSteps = 8_000_000

// Work that takes more than a step.
const (
	perRule    = 300 // to compile one that the writer has
	perEntry   = 10  // for each kind, name and path in it
	perPlace   = 25  // to look at a resource, in addition to the patterns that could match it
	perSight   = 50  // additional, if the rules see it differently from all others
	perRequest = 20  // to decide it, in addition to the rules that could match it
	// perCondition is to collect the rules under whose conditions a request is held.
	perCondition = 10
	// perKind is how many patterns by kind the index skips in a step.
	perKind = 8
)

// budget counts what a check has done. All comparisons of one check share it.
type budget struct{ steps int }

func (b *budget) charge(steps int) { b.steps += steps }

func (b *budget) spent() bool { return b.steps > maxSteps }
