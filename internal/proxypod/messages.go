package proxypod

import "fmt"

// aboutGeneration begins what an agent says of one generation of its Gateway. What begins otherwise is about the proxy itself.
const aboutGeneration = "generation %d: "

// AboutGeneration is the message of an agent about a generation of its Gateway.
func AboutGeneration(generation int64, message string) string {
	return fmt.Sprintf(aboutGeneration, generation) + message
}

// AboutAnother says whether a message of an agent is about another generation than this one.
func AboutAnother(generation int64, message string) bool {
	var about int64
	_, err := fmt.Sscanf(message, aboutGeneration, &about)
	return err == nil && about != generation
}
