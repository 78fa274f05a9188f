import { parseArgs } from 'node:util'
import { core } from './core.ts'

/** A benchmark prints its figures as JSON lines; the last line is the one that counts. Variants before it are for the reader. */
const benchmarks: Record<
  string,
  { readonly run: (variant: string | undefined) => Promise<Record<string, unknown>>; readonly about: string }
> = {
  core: {
    run: core,
    about: 'the router against a bare loop; variants: constant (a handler that does nothing), memory (5 million messages)',
  },
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false }, variant: { type: 'string' }, help: { type: 'boolean', default: false } },
})

const unknown = positionals.filter((name) => !(name in benchmarks))
if (values.help || unknown.length > 0) {
  if (unknown.length > 0) console.error(`There is no benchmark '${unknown.join("', '")}'.`)
  console.error('npm run -s bench -- [NAME] [--variant V] [--json]')
  for (const [name, { about }] of Object.entries(benchmarks)) console.error(`  ${name}: ${about}`)
  process.exit(unknown.length > 0 ? 2 : 0)
}

for (const name of positionals.length > 0 ? positionals : Object.keys(benchmarks)) {
  const figures = await benchmarks[name]?.run(values.variant)
  if (values.json) console.log(JSON.stringify(figures))
  else console.table({ [name]: figures })
}
