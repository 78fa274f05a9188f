import { demo } from './demo.ts'

const count = 1000
console.log(`Sending ${count} orders through a router on the in-memory broker. Every tenth fails at first, four can never be handled.`)
const result = await demo(count, (done) => process.stderr.write(`\r  ${done} orders saved`))
process.stderr.write('\n')
console.log(`  ${result.saved} orders were saved, and ${result.events_published} events say so.`)
console.log(`  ${result.redelivered} deliveries were repeated after a failure.`)
console.log(`  ${result.dead_lettered} orders that cannot be handled are in the dead letter, for a person to look at.`)
console.log(`  ${result.lost} were lost.`)
console.log(JSON.stringify(result))
process.exitCode = result.lost === 0 ? 0 : 1
