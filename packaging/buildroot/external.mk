include $(sort $(wildcard $(BR2_EXTERNAL_ISOLATOR_PATH)/package/*/*.mk))
