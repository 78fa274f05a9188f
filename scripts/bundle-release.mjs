// @ts-check
// Freezes the current sources as the "previous release" of the upgrade tests (test/upgrade). Run it at each release, before the next
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
// The minifier drops comments; this one disables the type checker for the file.
writeFileSync(new URL('previous-release.mjs', folder), `// @ts-nocheck\n${output[0].code}`)
