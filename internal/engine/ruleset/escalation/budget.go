package escalation

// maxSteps limits one escalation check. At the limit a check takes about 0.4 s of processor time. Beyond it the grant
// is refused: a check that takes minutes is a way to keep the server busy. A step is about what it takes to compare a
// name with a pattern; what takes longer counts as several, whatever it is done for.
const maxSteps = 8_000_000

// What takes more than a step.
const (
	perRule    = 300 // to compile one that the writer has
	perEntry   = 10  // for each kind, name and path in it
	perPlace   = 25  // to look at a resource, beside the patterns that could be about it
	perSight   = 50  // more, if the rules see it as they see no other
	perRequest = 20  // to decide it, beside the rules that could match it
	// perCondition is to gather the rules under whose conditions a request is held.
	perCondition = 10
	// perKind is how many patterns by kind the index passes over in a step.
	perKind = 8
)

// budget counts what a check has done. All comparisons of one check share it.
type budget struct{ steps int }

func (b *budget) charge(steps int) { b.steps += steps }

func (b *budget) spent() bool { return b.steps > maxSteps }
