import { demo } from './demo.ts'

const count = 1000
console.log(`Sending ${count} orders through a router on the in-memory broker. Every tenth fails at first, four can never be handled.`)
const live = process.stderr.isTTY
const result = await demo(count, (done) => {
  if (live) process.stderr.write(`\r  ${done} of ${count} orders saved`)
  else if (done % 250 === 0) console.error(`  ${done} of ${count} orders saved`)
})
if (live) process.stderr.write(`\r  ${result.saved} of ${count} orders saved\n`)
console.log(`  ${result.saved} orders were saved, and ${result.events_published} events say so.`)
console.log(`  ${result.redelivered} deliveries were repeated after a failure.`)
console.log(`  ${result.dead_lettered} orders that cannot be handled are in the dead letter, for a person to look at.`)
console.log(`  ${result.lost} were lost.`)
console.log(JSON.stringify(result))
process.exitCode = result.lost === 0 ? 0 : 1
