import { demo } from './demo.ts'

const count = 1000
const live = process.stderr.isTTY
let shown = ''
const result = await demo(count, {
  onStep(text) {
    if (live && shown !== '') process.stderr.write('\n')
    shown = ''
    console.log(text)
  },
  onProgress(applied, published) {
    shown = `  ${applied} orders applied, ${published} events published`
    if (live) process.stderr.write(`\r${shown}`)
  },
})
if (live && shown !== '') process.stderr.write('\n')
console.log(`
  ${result.applied} of ${result.orders} orders are in the database, each once: ${result.duplicates_skipped} duplicates were skipped.
  ${result.events_published} events are at the broker, one for each, although it was down for a while.
  ${result.lost} lost, ${result.applied_twice} applied twice.
`)
console.log(JSON.stringify(result))
process.exitCode = result.lost === 0 && result.applied_twice === 0 ? 0 : 1
