import { AckordModule } from '@ackord/nestjs'
import { Module } from '@nestjs/common'
import { ackordOptions } from './ackord-options.ts'
import { OrdersController } from './orders.controller.ts'
import { OrdersService } from './orders.service.ts'

@Module({
  imports: [AckordModule.forRootAsync({ useFactory: ackordOptions })],
  controllers: [OrdersController],
  providers: [OrdersService],
})
export class AppModule {}
