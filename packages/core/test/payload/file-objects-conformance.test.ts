import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'vitest'
import type { ObjectWorld } from '../../../testkit/src/suites/objects/object-world.ts'
// Imported by path: the testkit depends on this package.
import { testObjectStore } from '../../../testkit/src/suites/objects/test-object-store.ts'
import { fileObjects } from '../../src/payload/file-objects.ts'

async function openFileWorld(): Promise<ObjectWorld> {
  const directory = await mkdtemp(join(tmpdir(), 'ackord-objects-'))
  return {
    store: fileObjects(directory),
    another: async () => fileObjects(directory),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  }
}

testObjectStore({ describe, it }, { name: 'fileObjects()', open: openFileWorld, features: { pageSize: 32 } })
