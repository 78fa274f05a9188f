import { type DynamicModule, Module } from '@nestjs/common'
import { OrdersModule } from './orders.module.ts'
import { OutboxModule } from './outbox.module.ts'
import type { Settings } from './settings.ts'

@Module({})
export class AppModule {
  static forRoot(settings: Settings): DynamicModule {
    return { module: AppModule, imports: [OutboxModule.forRoot(settings), OrdersModule] }
  }
}
