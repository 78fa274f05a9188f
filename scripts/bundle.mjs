// @ts-check
// Makes one file of JavaScript from a program in TypeScript, on the sources of our packages: Node 20 runs no TypeScript, and a test that
// starts processes must not depend on a build. What is installed stays outside.
import { rolldown } from 'rolldown'

/**
 * @param {string} program
 * @param {string} file where it goes: below the workspace, so that it finds what is installed
 */
export async function bundle(program, file) {
  const bundled = await rolldown({
    input: program,
    platform: 'node',
    // The bundler brings the helpers for newer syntax itself.
    external: (id) => /^[^./]/.test(id) && !/^@(ackord|oxc-project)\//.test(id),
    resolve: { conditionNames: ['@ackord/source', 'node', 'import'] },
    transform: { target: 'node20' },
    // A module of a test may be there for what it does, though its package says that its modules do nothing by themselves.
    treeshake: { moduleSideEffects: (id) => (id.includes('/test/') ? true : undefined) },
  })
  try {
    await bundled.write({ file, format: 'esm', sourcemap: true })
  } finally {
    await bundled.close()
  }
}
