import { simulate } from '../../src/simulation/simulate.ts'

const { trace } = await simulate(Number(process.argv[2]))
process.stdout.write(trace())
