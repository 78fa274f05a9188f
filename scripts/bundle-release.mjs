// @ts-check
// Freezes the present sources as the "previous release" of the upgrade tests (test/upgrade). To be run when a release is made, before the next
// change of a table, a key or a statement.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const folder = new URL('../test/upgrade/', import.meta.url)
const bundled = await rolldown({
  input: fileURLToPath(new URL('release.ts', folder)),
  platform: 'node',
  external: (id) => /^[^./]/.test(id) && !/^@(ackord|oxc-project)\//.test(id),
  resolve: { conditionNames: ['@ackord/source', 'node', 'import'] },
  transform: { target: 'node20' },
})
const { output } = await bundled.generate({ format: 'esm', minify: true })
await bundled.close()
// The minifier drops comments, and this one keeps the type checker out.
writeFileSync(new URL('previous-release.mjs', folder), `// @ts-nocheck\n${output[0].code}`)
