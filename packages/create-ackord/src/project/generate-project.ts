import type { Broker, Framework, Store } from '../choices/catalog.ts'
import { type Choices, parseBroker, parseClient, parseFramework, parseStore } from '../choices/choices.ts'
import { checkProjectName, resourcePrefix } from '../choices/project-name.ts'
import { http } from '../pieces/brokers/http.ts'
import { kafka } from '../pieces/brokers/kafka.ts'
import { nats } from '../pieces/brokers/nats.ts'
import { rabbitmq } from '../pieces/brokers/rabbitmq.ts'
import { redisStreams } from '../pieces/brokers/redis-streams.ts'
import { fastify } from '../pieces/frameworks/fastify.ts'
import { hono } from '../pieces/frameworks/hono.ts'
import { nestjs } from '../pieces/frameworks/nestjs.ts'
import { none } from '../pieces/frameworks/none.ts'
import type { BrokerPiece, BrokerRoute, FrameworkPiece, PieceContext, StorePiece } from '../pieces/piece.ts'
import { mysql } from '../pieces/stores/mysql.ts'
import { postgres } from '../pieces/stores/postgres.ts'
import { redis } from '../pieces/stores/redis.ts'
import { sqlite } from '../pieces/stores/sqlite.ts'
import { applicationFiles } from './application-files.ts'
import { composeFile } from './compose-file.ts'
import { packageFiles } from './package-files.ts'
import type { Parts } from './parts.ts'
import { programFiles } from './program-files.ts'
import { readmeFile } from './readme-file.ts'
import { sendProgram } from './send-program.ts'
import { settingsFile } from './settings-file.ts'

const storePieces: Readonly<Record<Store, (context: PieceContext) => StorePiece>> = { postgres, mysql, sqlite, redis }

const brokerPieces: Readonly<Record<Broker, (context: PieceContext) => BrokerPiece>> = {
  rabbitmq,
  nats,
  kafka,
  'redis-streams': redisStreams,
  http,
}

const frameworkPieces: Readonly<Record<Framework, (route: BrokerRoute | undefined) => FrameworkPiece>> = {
  none,
  fastify,
  hono,
  nestjs,
}

/** The files of a project by path. Rejects names and choices that do not work, with an `InvalidChoiceError`. */
export function generateProject(name: string, choices: Choices): ReadonlyMap<string, string> {
  checkProjectName(name)
  const store = parseStore(choices.store)
  const checked: Choices = {
    store,
    client: parseClient(choices.client, store),
    broker: parseBroker(choices.broker),
    framework: parseFramework(choices.framework),
  }
  const context = { choices: checked, prefix: resourcePrefix(name) }
  const broker = brokerPieces[checked.broker](context)
  const framework = frameworkPieces[checked.framework](broker.route)
  const parts: Parts = { name, store: storePieces[store](context), broker, framework }
  const files = {
    ...packageFiles(parts),
    ...composeFile(parts),
    'README.md': readmeFile(parts),
    ...applicationFiles,
    ...parts.store.files,
    ...broker.files,
    ...framework.files,
    'src/settings.ts': settingsFile(parts),
    ...programFiles(parts),
    'src/send.ts': sendProgram(broker),
  }
  return new Map(Object.entries(files).sort(([one], [other]) => one.localeCompare(other)))
}
