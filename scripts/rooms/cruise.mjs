// @ts-check
import { realpathSync } from 'node:fs'
import { cruise } from 'dependency-cruiser'

/**
 * Reads the imports of all packages below `folder`, type imports included.
 *
 * @param {string} folder
 * @param {import('dependency-cruiser').ICruiseOptions} [options]
 */
export async function cruisePackages(folder, options = {}) {
  const { output } = await cruise(
    ['packages'],
    { ...options, baseDir: realpathSync(folder), includeOnly: { path: '^packages/[^/]+/src/' }, tsPreCompilationDeps: true },
    { exportsFields: ['exports'], conditionNames: ['@ackord/source', 'import'], extensions: ['.ts'] },
  )
  if (typeof output === 'string') throw new Error(output)
  return output
}
